//! Settings that are one word of a few, as flags, TOML and JSON spell them.
//!
//! A wrong word is refused with the list and, for a slip, the word that was probably meant.

mod convert;

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::error::nearest;
use crate::quantity::text;

/// A word that is none of a setting's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("\"{word}\" is no {wanted}; {}choose one of {}", hint(.word, .words), .words.join(", "))]
pub struct ChoiceError {
    word: String,
    wanted: &'static str,
    words: &'static [&'static str],
}

fn hint(word: &str, words: &[&str]) -> String {
    match nearest(word, words.iter().copied()) {
        Some(meant) => format!("did you mean \"{meant}\"? Otherwise "),
        None => String::new(),
    }
}

macro_rules! choice {
    ($(#[doc = $doc:literal])+ $name:ident, $wanted:literal, {
        $($(#[doc = $item_doc:literal])+ $item:ident = $word:literal,)+
    }) => {
        $(#[doc = $doc])+
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub enum $name { $($(#[doc = $item_doc])+ $item,)+ }

        impl $name {
            /// All words, in the order of the documentation.
            pub const WORDS: &[&str] = &[$($word,)+];

            /// Its word.
            pub const fn word(self) -> &'static str {
                match self { $($name::$item => $word,)+ }
            }
        }

        impl FromStr for $name {
            type Err = ChoiceError;

            fn from_str(word: &str) -> Result<$name, ChoiceError> {
                match word {
                    $($word => Ok($name::$item),)+
                    _ => Err(ChoiceError {
                        word: word.to_owned(),
                        wanted: $wanted,
                        words: $name::WORDS,
                    }),
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.word())
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.word())
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<$name, D::Error> {
                text::read(deserializer, $wanted)
            }
        }

        impl schemars::JsonSchema for $name {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!({ "type": "string", "enum": $name::WORDS })
            }
        }
    };
}

choice! {
    /// Where all settings start from.
    Preset, "preset", {
        /// This project's way: ties to the fewest measured packets, first copies marked, closes.
        Default = "default",
        /// The paper's way: random ties, all copies marked, windows that end at the last PSN.
        Paper = "paper",
    }
}

choice! {
    /// Who sends to whom.
    Workload, "workload", {
        /// Everybody to everybody else, in shifted permutations.
        AllToAll = "all-to-all",
        /// Everybody to the next, in steps (each leaf has one destination).
        RingAllreduce = "ring-allreduce",
        /// Everybody to one other host, by chance.
        Permutation = "permutation",
        /// All to one.
        Incast = "incast",
        /// Hosts in pairs, both ways.
        Pairs = "pairs",
        /// The flows of a file, each at its time.
        Trace = "trace",
        /// Nobody.
        Idle = "idle",
    }
}

choice! {
    /// How an uplink is chosen.
    Spray, "spray policy", {
        /// The shorter queue of two random ones.
        Jsq2 = "jsq2",
        /// The shortest queue of all.
        Jsq = "jsq",
        /// Any.
        Random = "random",
        /// The next.
        RoundRobin = "round-robin",
        /// One path per flow.
        Ecmp = "ecmp",
    }
}

choice! {
    /// What decides between two uplinks of equal depth.
    Tie, "tie rule", {
        /// The one that has carried fewer marked packets to this destination.
        FewestMeasured = "fewest-measured",
        /// A coin.
        Random = "random",
    }
}

choice! {
    /// What a path's loss is read from.
    Evidence, "kind of evidence", {
        /// The counts at the destination alone.
        ReceiveOnly = "receive-only",
        /// And those of the source leaf's close.
        SourceCounts = "source-counts",
        /// And those of the spines.
        HopCounts = "hop-counts",
    }
}

choice! {
    /// Which packets of the measured flow are marked.
    Mark, "mark rule", {
        /// The first copy of each PSN.
        First = "first",
        /// All.
        All = "all",
    }
}

choice! {
    /// Who names the flows to measure.
    Announce, "way to announce", {
        /// Hosts announce their flows.
        Host = "host",
        /// Nobody announces; leaves find busy flows by themselves.
        Window = "window",
        /// Every second host announces; leaves find the flows of the others.
        Mixed = "mixed",
    }
}

choice! {
    /// How a path is tested.
    PathTest, "way to test", {
        /// Once P_min packets are there.
        Fixed = "fixed",
        /// After every window, with an alarm as soon as the evidence is there.
        Sequential = "sequential",
    }
}

choice! {
    /// How hosts recover lost packets.
    Recovery, "recovery", {
        /// Single packets are sent again.
        SelectiveRepeat = "selective-repeat",
        /// Everything from the lost packet on is sent again.
        GoBackN = "go-back-n",
    }
}

choice! {
    /// How the bytes of a ring-allreduce are counted.
    Ring, "ring accounting", {
        /// 2(n - 1) steps of 1/n of the bytes, each after the one before at the neighbour.
        Steps = "steps",
        /// The bytes as one flow per QP to the neighbour: the paper's 2 GiB over 2 QPs.
        Flows = "flows",
    }
}

choice! {
    /// How hosts heed congestion marks.
    Dcqcn, "set of DCQCN parameters", {
        /// Not at all.
        Off = "off",
        /// With the publication's parameters.
        Paper = "paper",
        /// With those of the public HPCC simulator.
        Hpcc = "hpcc",
        /// With an adapter's defaults.
        Vendor = "vendor",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: every word reads back as itself, here and in the detector's JSON.
    #[test]
    fn words_read_back() {
        for word in Workload::WORDS {
            assert_eq!(word.parse::<Workload>().unwrap().word(), *word);
        }
        for word in Evidence::WORDS {
            let evidence: Evidence = word.parse().unwrap();
            let theirs = serde_json::to_string(&detector::Evidence::from(evidence)).unwrap();
            assert_eq!(theirs, format!("\"{word}\""));
            assert_eq!(serde_json::to_string(&evidence).unwrap(), theirs);
        }
    }

    /// Goal: a wrong word is answered with what may be meant and with all there is.
    #[test]
    fn wrong_words_are_explained() {
        assert_eq!(
            "all2all".parse::<Workload>().unwrap_err().to_string(),
            "\"all2all\" is no workload; did you mean \"all-to-all\"? Otherwise choose one of \
             all-to-all, ring-allreduce, permutation, incast, pairs, trace, idle"
        );
        assert_eq!(
            "fast".parse::<Tie>().unwrap_err().to_string(),
            "\"fast\" is no tie rule; choose one of fewest-measured, random"
        );
    }
}
