//! The macro that turns the table of kinds into `EventKind`, a struct per kind and `Payload`.

macro_rules! events {
    ($(
        $(#[$doc:meta])*
        $name:ident = $word:literal { $($field:ident: $type:ty),* $(,)? } $(+ $part:ident: $part_type:ident)?
    )+) => {
        /// Every type of event that this version knows.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
        pub enum EventKind {
            $($(#[$doc])* #[serde(rename = $word)] $name,)+
        }

        impl EventKind {
            pub const ALL: &'static [Self] = &[$(Self::$name),+];

            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$name => $word,)+ }
            }

            /// None for a type that this version does not know.
            pub fn of(event_type: &str) -> Option<Self> {
                match event_type {
                    $($word => Some(Self::$name),)+
                    _ => None,
                }
            }

            /// The names of all fields that its data may have.
            pub fn fields(self) -> Vec<&'static str> {
                match self { $(Self::$name => $name::fields(),)+ }
            }
        }

        impl fmt::Display for EventKind {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.as_str())
            }
        }

        $(
            $(#[$doc])*
            #[derive(Debug, Clone, Default, PartialEq)]
            #[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
            pub struct $name {
                $(pub $field: Option<$type>,)*
                $(
                    #[cfg_attr(feature = "schema", serde(flatten))]
                    pub $part: $part_type,
                )?
                #[cfg_attr(feature = "schema", serde(flatten))]
                pub common: Common,
                /// Fields that this version does not know, and known ones that are null.
                #[cfg_attr(feature = "schema", schema(ignore))]
                pub extra: Map<String, Value>,
            }

            impl Part for $name {
                fn fields() -> Vec<&'static str> {
                    let mut fields = vec![$(stringify!($field)),*];
                    $(fields.extend($part_type::fields());)?
                    fields.extend(Common::fields());
                    fields
                }

                fn take(object: &mut Map<String, Value>) -> serde_json::Result<Self> {
                    Ok(Self {
                        $($field: take(object, stringify!($field))?,)*
                        $($part: Part::take(object)?,)?
                        common: Part::take(object)?,
                        extra: std::mem::take(object),
                    })
                }

                fn put(&self, object: &mut Map<String, Value>) {
                    object.extend(self.extra.clone());
                    $(put(object, stringify!($field), self.$field.as_ref());)*
                    $(self.$part.put(object);)?
                    self.common.put(object);
                }
            }

            impl From<$name> for Payload {
                fn from(data: $name) -> Self {
                    Self::$name(Box::new(data))
                }
            }
        )+

        /// An event's data, understood as far as this version goes.
        #[derive(Debug, Clone)]
        pub enum Payload {
            $($name(Box<$name>),)+
            /// A type that this version does not know, or data that does not fit its type; untouched.
            Other { event_type: String, data: Box<RawValue> },
        }

        impl Payload {
            /// Never fails. Data that does not fit its type (a number where text belongs, a list in place of
            /// the object) becomes `Other`, because an event is a record of what happened: it is kept, passed
            /// on and shown as it came, while nobody who matches on a kind acts on a half-understood report.
            pub fn parse(event_type: &str, data: &RawValue) -> Self {
                let known = EventKind::of(event_type).and_then(|kind| Self::parse_known(kind, data).ok());
                let other = || Self::Other { event_type: event_type.to_owned(), data: data.to_owned() };
                known.unwrap_or_else(other)
            }

            fn parse_known(kind: EventKind, data: &RawValue) -> serde_json::Result<Self> {
                let mut object: Map<String, Value> = serde_json::from_str(data.get())?;
                match kind {
                    $(EventKind::$name => $name::take(&mut object).map(Self::from),)+
                }
            }

            /// None for `Other`, even where the type as such is known.
            pub fn kind(&self) -> Option<EventKind> {
                match self {
                    $(Self::$name(_) => Some(EventKind::$name),)+
                    Self::Other { .. } => None,
                }
            }

            pub fn event_type(&self) -> &str {
                match self {
                    $(Self::$name(_) => $word,)+
                    Self::Other { event_type, .. } => event_type,
                }
            }

            /// Says where the event comes from. `Other` stays as it is.
            #[must_use]
            pub fn with_common(mut self, common: Common) -> Self {
                match &mut self {
                    $(Self::$name(data) => data.common = common,)+
                    Self::Other { .. } => {}
                }
                self
            }

            /// None for `Other`.
            pub fn common(&self) -> Option<&Common> {
                match self {
                    $(Self::$name(data) => Some(&data.common),)+
                    Self::Other { .. } => None,
                }
            }

            /// The data as JSON. Fails only for an `Other` that no `Value` can hold: nested too deep, or a
            /// number out of range.
            pub fn to_value(&self) -> serde_json::Result<Value> {
                let mut object = Map::new();
                match self {
                    $(Self::$name(data) => data.put(&mut object),)+
                    Self::Other { data, .. } => return serde_json::from_str(data.get()),
                }
                Ok(Value::Object(object))
            }

            /// The data as JSON text; of an `Other`, the very text it came as.
            pub fn to_raw(&self) -> Box<RawValue> {
                if let Self::Other { data, .. } = self {
                    return data.clone();
                }
                let text = self.to_value().and_then(|value| to_raw_value(&value));
                text.expect("an object of JSON values is JSON")
            }
        }
    };
}

pub(super) use events;
