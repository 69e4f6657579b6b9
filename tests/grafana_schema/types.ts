// What our dashboards may hold: the types of @grafana/schema, narrowed to the panels, queries and variables that we use.
// JSON has no enums: `Plain` takes the texts of an enum in its place. Properties that a type does not know are errors.
import type {
  AnnotationQuery,
  Dashboard,
  DataQuery,
  DataTransformerConfig,
  FieldConfig,
  Panel,
  VariableModel,
} from '@grafana/schema';
import type * as bars from '@grafana/schema/dist/esm/raw/composable/barchart/panelcfg/x/BarChartPanelCfg_types.gen';
import type * as table from '@grafana/schema/dist/esm/raw/composable/table/panelcfg/x/TablePanelCfg_types.gen';
import type * as lines from '@grafana/schema/dist/esm/raw/composable/timeseries/panelcfg/x/TimeSeriesPanelCfg_types.gen';

export type Plain<T> = T extends string
  ? `${T}`
  : T extends readonly (infer Item)[]
    ? Plain<Item>[]
    : T extends object
      ? { [Key in keyof T]: Plain<T[Key]> }
      : T;

/** A query of Grafana's InfluxDB data source; that package exports no types. */
interface InfluxQuery extends DataQuery {
  rawQuery: true;
  query: string;
  resultFormat: 'table' | 'time_series';
  alias?: string;
}

interface AnnotationColumns extends InfluxQuery {
  fromAnnotations: true;
  titleColumn: string;
  textColumn: string;
  tagsColumn: string;
  timeEndColumn: string;
}

interface GrafanaTags extends DataQuery {
  limit: number;
  matchAny: boolean;
  tags: string[];
  type: 'tags';
}

type Override<Custom> = {
  matcher: { id: 'byName' | 'byRegexp'; options: string };
  properties: (
    | { id: 'unit'; value: string }
    | { id: 'mappings'; value: Plain<NonNullable<FieldConfig['mappings']>> }
    | { [Key in keyof Custom & string]: { id: `custom.${Key}`; value: NonNullable<Plain<Custom[Key]>> } }[keyof Custom &
        string]
  )[];
};

type Transformation =
  | { id: 'filterFieldsByName'; options: { exclude: { pattern: string } } }
  | { id: 'merge'; options: Record<string, never> }
  | { id: 'joinByField'; options: { byField: string; mode: 'inner' | 'outer' } }
  | {
      id: 'calculateField';
      options: {
        mode: 'binary';
        binary: { left: string; operator: '/'; right: string };
        alias: string;
        replaceFields: boolean;
      };
    }
  | {
      id: 'organize';
      options: {
        excludeByName: Record<string, boolean>;
        indexByName: Record<string, number>;
        renameByName: Record<string, string>;
      };
    };

type PanelOf<Kind extends string, Options, Custom> = Plain<
  Omit<Panel, 'type' | 'options' | 'fieldConfig' | 'targets' | 'transformations'>
> & {
  type: Kind;
  title: string;
  description: string;
  options: Plain<Options>;
  fieldConfig: {
    defaults: Plain<Omit<FieldConfig, 'custom'>> & { unit: string; custom?: Plain<Custom> };
    overrides: Override<Custom>[];
  };
  targets: Plain<InfluxQuery>[];
  transformations?: Transformation[];
};

type OurPanel =
  | PanelOf<'timeseries', Omit<lines.Options, 'orientation'>, lines.FieldConfig>
  | PanelOf<'table', table.Options, table.FieldConfig>
  | PanelOf<'barchart', bars.Options, bars.FieldConfig>;

export type OurDashboard = Plain<Omit<Dashboard, 'panels' | 'annotations' | 'templating'>> & {
  uid: string;
  panels: OurPanel[];
  annotations: { list: Plain<AnnotationQuery<AnnotationColumns> | AnnotationQuery<GrafanaTags>>[] };
  templating: { list: Plain<VariableModel>[] };
};

/** The shapes above must themselves be such as Grafana takes. */
export const ofGrafana: (ours: Transformation) => Plain<DataTransformerConfig> = (ours) => ours;
