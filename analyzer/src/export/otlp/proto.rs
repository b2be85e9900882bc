//! The OTLP messages that are sent and received, with the field numbers of opentelemetry-proto 1.x. Unused fields are
//! not declared.

use prost::{Message, Oneof};

/// `AGGREGATION_TEMPORALITY_CUMULATIVE`.
pub const CUMULATIVE: i32 = 2;

/// Declares messages: of each field name, type, encoding as the derive of prost has it, and meaning.
macro_rules! messages {
    ($($name:ident = $doc:literal { $($field:ident: $of:ty, ($($encoding:tt)*), $about:literal;)* })*) => {$(
        #[doc = $doc]
        #[derive(Clone, PartialEq, Message)]
        pub struct $name {
            $(#[doc = $about] #[prost($($encoding)*)] pub $field: $of,)*
        }
    )*};
}

messages! {
    MetricsRequest = "`ExportMetricsServiceRequest`." {
        resource_metrics: Vec<ResourceMetrics>, (message, repeated, tag = "1"), "One per resource.";
    }
    ResourceMetrics = "`ResourceMetrics`." {
        resource: Option<Resource>, (message, optional, tag = "1"), "The described entity: this host and process.";
        scope_metrics: Vec<ScopeMetrics>, (message, repeated, tag = "2"), "One per scope.";
    }
    Resource = "`Resource`." {
        attributes: Vec<KeyValue>, (message, repeated, tag = "1"), "Attributes.";
    }
    Scope = "`InstrumentationScope`." {
        name: String, (string, tag = "1"), "Name of the instrumentation: the program.";
        version: String, (string, tag = "2"), "Version of the program.";
    }
    ScopeMetrics = "`ScopeMetrics`." {
        scope: Option<Scope>, (message, optional, tag = "1"), "The instrumentation.";
        metrics: Vec<Metric>, (message, repeated, tag = "2"), "The metrics.";
    }
    Metric = "`Metric`." {
        name: String, (string, tag = "1"), "Name.";
        description: String, (string, tag = "2"), "Description.";
        unit: String, (string, tag = "3"), "Unit in UCUM.";
        data: Option<Data>, (oneof = "Data", tags = "5, 7, 9"), "Data points.";
    }
    Gauge = "`Gauge`." {
        data_points: Vec<NumberPoint>, (message, repeated, tag = "1"), "Points.";
    }
    Sum = "`Sum`." {
        data_points: Vec<NumberPoint>, (message, repeated, tag = "1"), "Points.";
        aggregation_temporality: i32, (int32, tag = "2"), "[`CUMULATIVE`].";
        is_monotonic: bool, (bool, tag = "3"), "True for counters, which never decrease.";
    }
    Histogram = "`Histogram`." {
        data_points: Vec<HistogramPoint>, (message, repeated, tag = "1"), "Points.";
        aggregation_temporality: i32, (int32, tag = "2"), "[`CUMULATIVE`].";
    }
    NumberPoint = "`NumberDataPoint`." {
        start_time_unix_nano: u64, (fixed64, tag = "2"), "Start of counting, Unix nanoseconds; 0 for gauges.";
        time_unix_nano: u64, (fixed64, tag = "3"), "Time of the sample, Unix nanoseconds.";
        value: Option<Number>, (oneof = "Number", tags = "4, 6"), "The value.";
        attributes: Vec<KeyValue>, (message, repeated, tag = "7"), "Attributes.";
    }
    HistogramPoint = "`HistogramDataPoint`." {
        start_time_unix_nano: u64, (fixed64, tag = "2"), "Start of counting, Unix nanoseconds.";
        time_unix_nano: u64, (fixed64, tag = "3"), "Time of the sample, Unix nanoseconds.";
        count: u64, (fixed64, tag = "4"), "Number of values.";
        sum: Option<f64>, (double, optional, tag = "5"), "Sum of the values.";
        bucket_counts: Vec<u64>, (fixed64, repeated, tag = "6"), "Number of values per bucket, the unbounded one last.";
        explicit_bounds: Vec<f64>, (double, repeated, tag = "7"), "Upper bounds of the buckets, without the unbounded one.";
        attributes: Vec<KeyValue>, (message, repeated, tag = "9"), "Attributes.";
    }
    KeyValue = "`KeyValue`." {
        key: String, (string, tag = "1"), "Name.";
        value: Option<AnyValue>, (message, optional, tag = "2"), "Value.";
    }
    AnyValue = "`AnyValue`." {
        value: Option<Any>, (oneof = "Any", tags = "1, 2, 3, 4, 5, 6"), "The value.";
    }
    List = "`ArrayValue`." {
        values: Vec<AnyValue>, (message, repeated, tag = "1"), "Its values.";
    }
    Map = "`KeyValueList`." {
        values: Vec<KeyValue>, (message, repeated, tag = "1"), "Its values.";
    }
    LogsRequest = "`ExportLogsServiceRequest`." {
        resource_logs: Vec<ResourceLogs>, (message, repeated, tag = "1"), "One per resource.";
    }
    ResourceLogs = "`ResourceLogs`." {
        resource: Option<Resource>, (message, optional, tag = "1"), "The described entity: this host and process.";
        scope_logs: Vec<ScopeLogs>, (message, repeated, tag = "2"), "One per scope.";
    }
    ScopeLogs = "`ScopeLogs`." {
        scope: Option<Scope>, (message, optional, tag = "1"), "The instrumentation.";
        log_records: Vec<LogRecord>, (message, repeated, tag = "2"), "The records.";
    }
    LogRecord = "`LogRecord`." {
        time_unix_nano: u64, (fixed64, tag = "1"), "Time of the event, Unix nanoseconds.";
        severity_number: i32, (int32, tag = "2"), "`SeverityNumber`.";
        severity_text: String, (string, tag = "3"), "Severity in the words of the report.";
        body: Option<AnyValue>, (message, optional, tag = "5"), "The title of the finding.";
        attributes: Vec<KeyValue>, (message, repeated, tag = "6"), "Attributes.";
        observed_time_unix_nano: u64, (fixed64, tag = "11"), "Time of the sample that showed it, Unix nanoseconds.";
        event_name: String, (string, tag = "12"), "Event name of the record.";
    }
    Response = "`ExportMetricsServiceResponse` and `ExportLogsServiceResponse`, which have the same fields." {
        partial_success: Option<PartialSuccess>, (message, optional, tag = "1"), "Present if the collector rejected a part of the request.";
    }
    PartialSuccess = "`ExportMetricsPartialSuccess` and `ExportLogsPartialSuccess`." {
        rejected: i64, (int64, tag = "1"), "Number of rejected points or records.";
        error_message: String, (string, tag = "2"), "The reason, or a warning.";
    }
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
