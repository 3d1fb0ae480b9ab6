//! Rules that can be left out one by one.

/// Makes a struct with one `bool` a rule, all of them true unless said otherwise.
macro_rules! rules {
    ($(#[$meta:meta])* pub struct Rules { $($(#[$doc:meta])* pub $name:ident,)* }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub struct Rules {
            $($(#[$doc])* pub $name: bool,)*
        }

        impl Default for Rules {
            fn default() -> Self {
                Self { $($name: true,)* }
            }
        }

        impl Rules {
            /// All of them, by name.
            pub const NAMES: &[&str] = &[$(stringify!($name),)*];

            /// The same without one; `None` when there is no such rule.
            #[must_use]
            pub fn without(mut self, name: &str) -> Option<Self> {
                match name {
                    $(stringify!($name) => self.$name = false,)*
                    _ => return None,
                }
                Some(self)
            }
        }
    };
}

pub(crate) use rules;
