//! The reference of all configuration files, from their types: docs/configuration.md, and JSON schemas for editors.
//!
//! What a key means is its doc comment; default, range, unit and example stand beside it, as `x-default`
//! (a value), `x-unless` (what follows from other keys), `x-range`, `x-unit` and `x-example`. A
//! test holds the page equal to the types, and the types' defaults and ranges equal to what files do.

mod kinds;
mod page;
#[cfg(test)]
mod tests;

use schemars::{Schema, SchemaGenerator, generate::SchemaSettings};
use serde_json::Value;

use crate::choice::Preset;
use crate::testbed::{TestbedConfig, TestbedLayer};
use crate::{fabric_file, monitor_file, scenario, switch_file};

/// The kinds of files.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum File {
    /// Of one switch.
    Switch,
    /// Of a fabric, from which those of switches are generated.
    Fabric,
    /// Of a testbed.
    Testbed,
    /// Of a simulation.
    Scenario,
    /// Of a monitor.
    Monitor,
    /// Of a relay.
    Relay,
}

impl File {
    /// All, in the order of the page.
    pub const ALL: [File; 6] = [
        File::Switch,
        File::Fabric,
        File::Testbed,
        File::Scenario,
        File::Monitor,
        File::Relay,
    ];

    /// Its word.
    pub const fn word(self) -> &'static str {
        match self {
            File::Switch => "switch",
            File::Fabric => "fabric",
            File::Testbed => "testbed",
            File::Scenario => "scenario",
            File::Monitor => "monitor",
            File::Relay => "relay",
        }
    }
}

/// The JSON schema (draft 2020-12) of a kind of files: TOML and JSON have the same form, and editors know schemas.
pub fn schema(file: File) -> Value {
    let settings =
        SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true);
    let generator: SchemaGenerator = settings.into_generator();
    let schema: Schema = match file {
        File::Switch => generator.into_root_schema_for::<switch_file::raw::Switch>(),
        File::Fabric => generator.into_root_schema_for::<fabric_file::raw::File>(),
        File::Testbed => generator.into_root_schema_for::<TestbedLayer>(),
        File::Scenario => generator.into_root_schema_for::<scenario::Raw>(),
        File::Monitor => generator.into_root_schema_for::<monitor_file::raw::File>(),
        File::Relay => generator.into_root_schema_for::<monitor_file::raw::Relay>(),
    };
    let mut value = schema.to_value();
    if file == File::Testbed {
        with_presets(&mut value);
    }
    if let Value::Object(schema) = &mut value {
        schema.insert(
            "title".into(),
            format!("A {} of spraycheck", file.word()).into(),
        );
        schema.remove("description");
    }
    value
}

/// The page of the documentation.
pub fn page() -> String {
    page::write()
}

/// The defaults of a testbed are those of its presets.
fn with_presets(schema: &mut Value) {
    let of = |preset| serde_json::to_value(TestbedConfig::preset(preset)).unwrap_or_default();
    let (default, paper) = (of(Preset::Default), of(Preset::Paper));
    let Some(Value::Object(keys)) = schema.get_mut("properties") else {
        return;
    };
    for (key, schema) in keys {
        let (Value::Object(schema), Some(value)) = (schema, default.get(key)) else {
            continue;
        };
        if value.is_null() || schema.contains_key("x-unless") {
            continue;
        }
        schema.insert("x-default".into(), value.clone());
        if let Some(other) = paper.get(key).filter(|other| *other != value) {
            schema.insert("x-paper".into(), other.clone());
        }
    }
}
