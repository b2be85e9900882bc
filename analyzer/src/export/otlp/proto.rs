//! The OTLP messages that are sent and received, with the field numbers of opentelemetry-proto 1.x. Unused fields are
//! not declared.

use prost::{Message, Oneof};

/// `AGGREGATION_TEMPORALITY_CUMULATIVE`.
pub const CUMULATIVE: i32 = 2;

/// `ExportMetricsServiceRequest`.
#[derive(Clone, PartialEq, Message)]
pub struct MetricsRequest {
    /// One per resource.
    #[prost(message, repeated, tag = "1")]
    pub resource_metrics: Vec<ResourceMetrics>,
}

/// `ResourceMetrics`.
#[derive(Clone, PartialEq, Message)]
pub struct ResourceMetrics {
    /// The described entity: this host and process.
    #[prost(message, optional, tag = "1")]
    pub resource: Option<Resource>,
    /// One per scope.
    #[prost(message, repeated, tag = "2")]
    pub scope_metrics: Vec<ScopeMetrics>,
}

/// `Resource`.
#[derive(Clone, PartialEq, Message)]
pub struct Resource {
    /// Attributes.
    #[prost(message, repeated, tag = "1")]
    pub attributes: Vec<KeyValue>,
}

/// `InstrumentationScope`.
#[derive(Clone, PartialEq, Message)]
pub struct Scope {
    /// Name of the instrumentation: the program.
    #[prost(string, tag = "1")]
    pub name: String,
    /// Version of the program.
    #[prost(string, tag = "2")]
    pub version: String,
}

/// `ScopeMetrics`.
#[derive(Clone, PartialEq, Message)]
pub struct ScopeMetrics {
    /// The instrumentation.
    #[prost(message, optional, tag = "1")]
    pub scope: Option<Scope>,
    /// The metrics.
    #[prost(message, repeated, tag = "2")]
    pub metrics: Vec<Metric>,
}

/// `Metric`.
#[derive(Clone, PartialEq, Message)]
pub struct Metric {
    /// Name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// Description.
    #[prost(string, tag = "2")]
    pub description: String,
    /// Unit in UCUM.
    #[prost(string, tag = "3")]
    pub unit: String,
    /// Data points.
    #[prost(oneof = "Data", tags = "5, 7, 9")]
    pub data: Option<Data>,
}

/// Data points, by metric type.
#[derive(Clone, PartialEq, Oneof)]
pub enum Data {
    /// Current values.
    #[prost(message, tag = "5")]
    Gauge(Gauge),
    /// Counters.
    #[prost(message, tag = "7")]
    Sum(Sum),
    /// Distributions.
    #[prost(message, tag = "9")]
    Histogram(Histogram),
}

/// `Gauge`.
#[derive(Clone, PartialEq, Message)]
pub struct Gauge {
    /// Points.
    #[prost(message, repeated, tag = "1")]
    pub data_points: Vec<NumberPoint>,
}

/// `Sum`.
#[derive(Clone, PartialEq, Message)]
pub struct Sum {
    /// Points.
    #[prost(message, repeated, tag = "1")]
    pub data_points: Vec<NumberPoint>,
    /// [`CUMULATIVE`].
    #[prost(int32, tag = "2")]
    pub aggregation_temporality: i32,
    /// True for counters, which never decrease.
    #[prost(bool, tag = "3")]
    pub is_monotonic: bool,
}

/// `Histogram`.
#[derive(Clone, PartialEq, Message)]
pub struct Histogram {
    /// Points.
    #[prost(message, repeated, tag = "1")]
    pub data_points: Vec<HistogramPoint>,
    /// [`CUMULATIVE`].
    #[prost(int32, tag = "2")]
    pub aggregation_temporality: i32,
}

/// `NumberDataPoint`.
#[derive(Clone, PartialEq, Message)]
pub struct NumberPoint {
    /// Start of counting, Unix nanoseconds; 0 for gauges.
    #[prost(fixed64, tag = "2")]
    pub start_time_unix_nano: u64,
    /// Time of the sample, Unix nanoseconds.
    #[prost(fixed64, tag = "3")]
    pub time_unix_nano: u64,
    /// The value.
    #[prost(oneof = "Number", tags = "4, 6")]
    pub value: Option<Number>,
    /// Attributes.
    #[prost(message, repeated, tag = "7")]
    pub attributes: Vec<KeyValue>,
}

/// Value of a point.
#[derive(Clone, Copy, PartialEq, Oneof)]
pub enum Number {
    /// A floating-point number.
    #[prost(double, tag = "4")]
    Double(f64),
    /// An integer.
    #[prost(sfixed64, tag = "6")]
    Int(i64),
}

/// `HistogramDataPoint`.
#[derive(Clone, PartialEq, Message)]
pub struct HistogramPoint {
    /// Start of counting, Unix nanoseconds.
    #[prost(fixed64, tag = "2")]
    pub start_time_unix_nano: u64,
    /// Time of the sample, Unix nanoseconds.
    #[prost(fixed64, tag = "3")]
    pub time_unix_nano: u64,
    /// Number of values.
    #[prost(fixed64, tag = "4")]
    pub count: u64,
    /// Sum of the values.
    #[prost(double, optional, tag = "5")]
    pub sum: Option<f64>,
    /// Number of values per bucket, the unbounded one last.
    #[prost(fixed64, repeated, tag = "6")]
    pub bucket_counts: Vec<u64>,
    /// Upper bounds of the buckets, without the unbounded one.
    #[prost(double, repeated, tag = "7")]
    pub explicit_bounds: Vec<f64>,
    /// Attributes.
    #[prost(message, repeated, tag = "9")]
    pub attributes: Vec<KeyValue>,
}

/// `KeyValue`.
#[derive(Clone, PartialEq, Message)]
pub struct KeyValue {
    /// Name.
    #[prost(string, tag = "1")]
    pub key: String,
    /// Value.
    #[prost(message, optional, tag = "2")]
    pub value: Option<AnyValue>,
}

/// `AnyValue`.
#[derive(Clone, PartialEq, Message)]
pub struct AnyValue {
    /// The value.
    #[prost(oneof = "Any", tags = "1, 2, 3, 4, 5, 6")]
    pub value: Option<Any>,
}

/// Value of an attribute.
#[derive(Clone, PartialEq, Oneof)]
pub enum Any {
    /// Text.
    #[prost(string, tag = "1")]
    Text(String),
    /// Boolean.
    #[prost(bool, tag = "2")]
    Bool(bool),
    /// Integer.
    #[prost(int64, tag = "3")]
    Int(i64),
    /// Floating-point number.
    #[prost(double, tag = "4")]
    Double(f64),
    /// List.
    #[prost(message, tag = "5")]
    List(List),
    /// Key-value list.
    #[prost(message, tag = "6")]
    Map(Map),
}

/// `ArrayValue`.
#[derive(Clone, PartialEq, Message)]
pub struct List {
    /// Its values.
    #[prost(message, repeated, tag = "1")]
    pub values: Vec<AnyValue>,
}

/// `KeyValueList`.
#[derive(Clone, PartialEq, Message)]
pub struct Map {
    /// Its values.
    #[prost(message, repeated, tag = "1")]
    pub values: Vec<KeyValue>,
}

/// `ExportLogsServiceRequest`.
#[derive(Clone, PartialEq, Message)]
pub struct LogsRequest {
    /// One per resource.
    #[prost(message, repeated, tag = "1")]
    pub resource_logs: Vec<ResourceLogs>,
}

/// `ResourceLogs`.
#[derive(Clone, PartialEq, Message)]
pub struct ResourceLogs {
    /// The described entity: this host and process.
    #[prost(message, optional, tag = "1")]
    pub resource: Option<Resource>,
    /// One per scope.
    #[prost(message, repeated, tag = "2")]
    pub scope_logs: Vec<ScopeLogs>,
}

/// `ScopeLogs`.
#[derive(Clone, PartialEq, Message)]
pub struct ScopeLogs {
    /// The instrumentation.
    #[prost(message, optional, tag = "1")]
    pub scope: Option<Scope>,
    /// The records.
    #[prost(message, repeated, tag = "2")]
    pub log_records: Vec<LogRecord>,
}

/// `LogRecord`.
#[derive(Clone, PartialEq, Message)]
pub struct LogRecord {
    /// Time of the event, Unix nanoseconds.
    #[prost(fixed64, tag = "1")]
    pub time_unix_nano: u64,
    /// `SeverityNumber`.
    #[prost(int32, tag = "2")]
    pub severity_number: i32,
    /// Severity in the words of the report.
    #[prost(string, tag = "3")]
    pub severity_text: String,
    /// The title of the finding.
    #[prost(message, optional, tag = "5")]
    pub body: Option<AnyValue>,
    /// Attributes.
    #[prost(message, repeated, tag = "6")]
    pub attributes: Vec<KeyValue>,
    /// Time of the sample that showed it, Unix nanoseconds.
    #[prost(fixed64, tag = "11")]
    pub observed_time_unix_nano: u64,
    /// Event name of the record.
    #[prost(string, tag = "12")]
    pub event_name: String,
}

/// `ExportMetricsServiceResponse` and `ExportLogsServiceResponse`, which have the same fields.
#[derive(Clone, PartialEq, Message)]
pub struct Response {
    /// Present if the collector rejected a part of the request.
    #[prost(message, optional, tag = "1")]
    pub partial_success: Option<PartialSuccess>,
}

/// `ExportMetricsPartialSuccess` and `ExportLogsPartialSuccess`.
#[derive(Clone, PartialEq, Message)]
pub struct PartialSuccess {
    /// Number of rejected points or records.
    #[prost(int64, tag = "1")]
    pub rejected: i64,
    /// The reason, or a warning.
    #[prost(string, tag = "2")]
    pub error_message: String,
}

impl KeyValue {
    /// Creates an attribute.
    pub fn new(key: &str, value: impl Into<AnyValue>) -> Self {
        Self { key: key.to_owned(), value: Some(value.into()) }
    }
}

impl From<&str> for AnyValue {
    fn from(text: &str) -> Self {
        Self { value: Some(Any::Text(text.to_owned())) }
    }
}

impl From<i64> for AnyValue {
    fn from(number: i64) -> Self {
        Self { value: Some(Any::Int(number)) }
    }
}

impl From<&serde_json::Value> for AnyValue {
    /// Null has no value. An integer above 2^63 becomes a floating-point number.
    fn from(json: &serde_json::Value) -> Self {
        use serde_json::Value;
        let value = match json {
            Value::Null => None,
            Value::Bool(yes) => Some(Any::Bool(*yes)),
            Value::Number(number) => number.as_i64().map(Any::Int).or(number.as_f64().map(Any::Double)),
            Value::String(text) => Some(Any::Text(text.clone())),
            Value::Array(all) => Some(Any::List(List { values: all.iter().map(Into::into).collect() })),
            Value::Object(all) => {
                let values = all.iter().map(|(key, value)| KeyValue::new(key, value)).collect();
                Some(Any::Map(Map { values }))
            }
        };
        Self { value }
    }
}
