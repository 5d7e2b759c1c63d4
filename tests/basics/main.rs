//! What holds without a core: layouts and their names, conversions, elementary functions, types,
//! and the formulas and tables that both cores share.

mod attributes;
mod blocks;
mod convert;
mod disjoint;
mod formulas;
mod functions;
mod layout;
mod math;
mod names;
mod types;
