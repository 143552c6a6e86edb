//! What values with a form of their own look like: their name is the type in the reference.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

use crate::quantity::{Bytes, Probability, Rate, Time};
use crate::switch_file::Lcores;
use crate::switch_file::raw::Mac;
use crate::testbed::{FaultList, LinkList};

/// Says for each type what it is called, and its schema.
macro_rules! kinds {
    ($($name:ident: $kind:literal, $schema:tt;)+) => {
        $(impl JsonSchema for $name {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                let mut schema = json_schema!($schema);
                schema.insert("x-type".into(), $kind.into());
                schema
            }
        })+
    };
}

kinds! {
    Rate: "rate", { "type": "string" };
    Time: "time", { "type": "string" };
    Bytes: "size", { "type": ["string", "integer"] };
    Probability: "probability", { "type": ["string", "number"] };
    Mac: "MAC address", { "type": "string" };
    Lcores: "number or word", { "type": ["string", "integer"] };
    FaultList: "list of faults", { "type": "array", "items": { "type": "string" } };
    LinkList: "list of links", { "type": "array", "items": { "type": "string" } };
}
