//! What each phase of a spec puts out, key by key. The same lines make the types, the check of a file that an agent has
//! written, and the outline it is asked to follow.
//!
//! `need` marks what has to be there and not be empty text; the rest may be absent or null. Keys that are not named here
//! pass through.

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

pub use super::shape::{shape, shape_of};
use super::{
    Phase,
    shape::{Field, Kind, Shaped},
};

pub const PRIORITIES: &[&str] = &["critical", "high", "medium", "low", "must", "should", "could"];
pub const CATEGORIES: &[&str] = &["FUNC", "PERF", "SEC", "USE", "REL", "CON"];
pub const ESTIMATES: &[&str] = &["S", "M", "L", "XL"];
pub const COVERAGES: &[&str] = &["fully_covered", "partially_covered", "not_covered"];
/// Whether the file of a design component is there or is to be made.
pub const ACTIONS: &[&str] = &["create", "modify"];

type Object = Map<String, Value>;

macro_rules! shapes {
    (@need need) => { true };
    (@need may) => { false };
    (@words) => { &[] };
    (@words $words:expr) => { $words };
    ($($(#[$doc:meta])* $name:ident {
        $($(#[$note:meta])* $need:ident $field:ident: $type:ty $(= $words:expr)?),* $(,)?
    })*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
        #[serde(default)]
        pub struct $name {
            $($(#[$note])* #[serde(deserialize_with = "or_default")] pub $field: $type,)*
            /// Keys that are not known here.
            #[serde(flatten)]
            pub rest: Object,
        }

        impl Shaped for $name {
            const KIND: Kind = Kind::Object(&[$(Field {
                name: stringify!($field),
                need: shapes!(@need $need),
                kind: <$type as Shaped>::KIND,
                words: shapes!(@words $($words)?),
            }),*]);
        }
    )*};
}

shapes! {
    Explore {
        need codebase_summary: String,
        need project_type: String,
        need tech_stack: Vec<String>,
        need structure: Object,
        need key_files: Vec<KeyFile>,
        may relevant_patterns: Vec<Pattern>,
        may existing_models: Vec<ExistingModel>,
        need conventions: Conventions,
        may entry_points: Vec<String>,
        may test_structure: Value,
        need discovery_questions: Vec<Discovery>,
        need feature_summary: FeatureSummary,
        may related_to_feature: Vec<Value>,
        may notes: Value,
    }
    KeyFile { need path: String, need purpose: String }
    Pattern { need pattern: String, may description: String, may files: Vec<String> }
    ExistingModel { need name: String, need file: String, may fields: Value }
    Conventions { may naming: Value, may testing: Value, may patterns: Vec<Value> }
    Discovery { need category: String, need questions: Vec<Value> }
    FeatureSummary {
        need name: String,
        need one_liner: String,
        need problem_statement: String,
        need scope_in: Vec<String>,
        may scope_out: Vec<String>,
        may technical_constraints: Vec<Value>,
        may risks_identified: Vec<Value>,
        may success_metrics: Vec<Value>,
    }

    Prd {
        may prd_version: Value,
        need feature_name: String,
        need overview: Overview,
        need goals: Goals,
        need users: Users,
        need user_stories: Vec<UserStory>,
        need scope: Scope,
        may assumptions: Vec<Value>,
        may constraints: Constraints,
        may risks: Vec<Risk>,
        may open_questions: Vec<Value>,
        may related_features: Vec<Value>,
        may revision_history: Vec<Value>,
    }
    Overview { need one_liner: String, need problem_statement: String, need solution_summary: String }
    Goals { need primary: Value, may secondary: Vec<Value>, need success_metrics: Vec<Metric> }
    Metric { need metric: String, need target: Value, may measurement: Value }
    Users { need primary: User, may secondary: Vec<Value> }
    User { need role: String, may description: String, may needs: Vec<Value> }
    UserStory {
        need id: String,
        may title: String,
        need role: String,
        need want: String,
        need benefit: String,
        need priority: String = &["must", "should", "could"],
        need acceptance_criteria: Vec<String>,
    }
    Scope { need in_scope: Vec<String>, may out_of_scope: Vec<String>, may dependencies: Vec<Value> }
    Constraints { may technical: Vec<Value>, may business: Vec<Value> }
    Risk { need risk: String, may impact: Value, may likelihood: Value, may mitigation: Value }

    Requirements {
        need feature_name: String,
        need requirements: Vec<Requirement>,
        may assumptions: Vec<Value>,
        may out_of_scope: Vec<Value>,
        may open_questions: Vec<Value>,
        may traceability: Object,
    }
    Requirement {
        need id: String,
        need title: String,
        may r#type: Value,
        may category: String = CATEGORIES,
        may priority: String = PRIORITIES,
        /// In EARS form.
        need text: String,
        need acceptance_criteria: Vec<String>,
        may dependencies: Vec<String>,
        may notes: Value,
        /// Ids of the user stories it comes from.
        may user_stories: Vec<String>,
    }

    Design {
        need feature_name: String,
        need architecture_overview: String,
        may architecture_diagram: Value,
        need components: Vec<Component>,
        may data_models: Vec<DataModel>,
        may api_endpoints: Vec<Endpoint>,
        may integration_points: Vec<Value>,
        may error_handling: Value,
        need testing_strategy: TestingStrategy,
        may security_considerations: Vec<Value>,
        may migration_plan: Value,
    }
    Component {
        need name: String,
        may r#type: Value,
        may file_path: String,
        /// `create` where the file is not there yet.
        may action: String = ACTIONS,
        may description: String,
        need responsibility: String,
        may interfaces: Vec<Value>,
        may dependencies: Vec<Value>,
        /// Ids of the requirements it serves.
        may requirements: Vec<String>,
    }
    DataModel {
        need name: String,
        may table_name: Value,
        may description: Value,
        need fields: Object,
        may indexes: Vec<Value>,
        may relationships: Vec<Value>,
    }
    Endpoint {
        need method: String,
        need path: String,
        need description: String,
        may auth_required: Option<bool>,
        may request_schema: Value,
        may response_schema: Value,
        may error_responses: Value,
    }
    TestingStrategy { may unit_tests: Vec<Value>, may integration_tests: Vec<Value> }

    Tasks {
        need feature_name: String,
        need tickets: Vec<Ticket>,
        need tasks: Vec<Task>,
        may total_estimated_hours: Option<f64>,
        may critical_path: Vec<String>,
        /// Only in a spec that mends something broken.
        may bugfix: Option<Bugfix>,
    }
    Ticket {
        need id: String,
        need title: String,
        need description: String,
        may priority: String = PRIORITIES,
        may estimate: String = ESTIMATES,
        may requirements: Vec<String>,
        need tasks: Vec<String>,
        may acceptance_criteria: Vec<String>,
        may dependencies: TicketDependencies,
    }
    TicketDependencies { may blocked_by: Vec<String>, may blocks: Vec<String> }
    Task {
        need id: String,
        need title: String,
        need description: String,
        need parent_ticket: String,
        may r#type: String,
        may priority: String = PRIORITIES,
        may estimate: String = ESTIMATES,
        may estimated_hours: Option<f64>,
        may files_to_create: Vec<String>,
        may files_to_modify: Vec<String>,
        need acceptance_criteria: Vec<String>,
        may dependencies: TaskDependencies,
        may requirements_addressed: Vec<String>,
    }
    TaskDependencies { may depends_on: Vec<String>, may blocks: Vec<String> }
    Bugfix {
        need reproduce: Reproduce,
        need cause: Cause,
        /// Ids of the tasks that mend it.
        need fix: Vec<String>,
        need guard: Guard,
    }
    Reproduce { need steps: Vec<String>, may command: String, need observed: String, need expected: String }
    Cause { need file: String, need explanation: String }
    Guard {
        /// The file of the test that would have caught it.
        need test: String,
        /// Ids of the tasks that write it.
        need tasks: Vec<String>,
    }

    Sync {
        need validation_results: Validation,
        need coverage_matrix: Vec<Covered>,
        need traceability_stats: Stats,
        need dependency_analysis: DependencyAnalysis,
        need spec_summary: Summary,
        need ready_for_execution: bool,
        may blockers: Vec<Value>,
        may recommendations: Vec<Value>,
    }
    Validation {
        need all_requirements_covered: bool,
        need all_design_components_have_tasks: bool,
        need dependency_order_valid: bool,
        need no_circular_dependencies: bool,
        need all_ids_valid: bool,
        may issues_found: Vec<Value>,
        may warnings: Vec<Value>,
    }
    Covered {
        need requirement_id: String,
        may requirement_title: String,
        need covered_by_tasks: Vec<String>,
        may covered_by_tickets: Vec<String>,
        need status: String = COVERAGES,
        may coverage_notes: Value,
    }
    Stats { need requirements: f64, need tickets: f64, need tasks: f64, need dependencies: f64 }
    DependencyAnalysis {
        may task_dependency_graph: Value,
        may ticket_dependency_graph: Value,
        need critical_path: Vec<String>,
        need critical_path_hours: f64,
        /// Groups of ids of tasks that may run at once.
        may parallel_opportunities: Vec<Value>,
    }
    Summary { need requirement_coverage_percent: f64 }
}

pub(super) const fn kind(phase: Phase) -> Kind {
    match phase {
        Phase::Explore => Explore::KIND,
        Phase::Prd => Prd::KIND,
        Phase::Requirements => Requirements::KIND,
        Phase::Design => Design::KIND,
        Phase::Tasks => Tasks::KIND,
        Phase::Sync => Sync::KIND,
    }
}

fn or_default<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(from: D) -> Result<T, D::Error> {
    Option::deserialize(from).map(Option::unwrap_or_default)
}
