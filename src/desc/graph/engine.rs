//! Engines, heuristics and plans.

use std::sync::Arc;

use super::attribute::{Type, rows};
use super::check::Check;
use super::kind::Kind;
use super::norm;
use super::object::{Fields, Object, Value};
use super::operation_graph::OPERATIONGRAPH_OPS;
use crate::error::{ErrorKind, Result};
use crate::mode::Mode;

rows! {
    /// The attributes of ENGINE.
    ENGINE:
    ENGINE_OPERATION_GRAPH 1300 [Descriptor] -> OperationGraph One miscounted(Unsupported) required();
    ENGINE_GLOBAL_INDEX 1301 [Int64] One = -1 mistyped(BadParam);
    ENGINE_KNOB_INFO 1302 [Descriptor] -> KnobInfo Any read_only();
    ENGINE_NUMERICAL_NOTE 1303 [NumericalNote] Any read_only();
    ENGINE_BEHAVIOR_NOTE 1305 [BehaviorNote] Any read_only();
    ENGINE_SM_COUNT_TARGET 1306 [Int32] One;
    ENGINE_DEVICEPROP 1307 [Descriptor] -> DeviceProperties One miscounted(Unsupported) required();
    ENGINE_DISABLE_CLUSTER_COOPERATIVE 1308 [Boolean] One;
    ENGINE_SHARED_MEMORY_LIMIT 1309 [Int32] One;
}

rows! {
    /// The attributes of ENGINECFG.
    CONFIG:
    ENGINECFG_ENGINE 300 [Descriptor] -> Engine One required();
    ENGINECFG_INTERMEDIATE_INFO 301 [Descriptor] Any read_only();
    ENGINECFG_KNOB_CHOICES 302 [Descriptor] -> KnobChoice Any;
    ENGINECFG_WORKSPACE_SIZE 303 [Int64] One read_only();
    ENGINECFG_SHARED_MEMORY_USED 304 [Int32] One readable_if_known(Unsupported);
}

rows! {
    /// The attributes of ENGINEHEUR.
    HEURISTIC:
    // `CUDNN_HEUR_MODES_COUNT`, observed: no mode.
    ENGINEHEUR_MODE 200 [HeurMode] One = 4;
    ENGINEHEUR_OPERATION_GRAPH 201 [Descriptor] -> OperationGraph One required();
    ENGINEHEUR_RESULTS 202 [Descriptor] -> EngineConfig Any read_only();
    ENGINEHEUR_SM_COUNT_TARGET 203 [Int32] One;
    ENGINEHEUR_DEVICEPROP 204 [Descriptor] -> DeviceProperties One miscounted(Unsupported) required();
    ENGINEHEUR_SHARED_MEMORY_LIMIT 205 [Int32] One;
}

rows! {
    /// The attributes of EXECUTION_PLAN.
    PLAN:
    EXECUTION_PLAN_HANDLE 400 [Handle] One mistyped(NotInitialized);
    EXECUTION_PLAN_ENGINE_CONFIG 401 [Descriptor] -> EngineConfig One required();
    EXECUTION_PLAN_WORKSPACE_SIZE 402 [Int64] One read_only();
    EXECUTION_PLAN_COMPUTED_INTERMEDIATE_UIDS 403 [Int64] Any read_only() unreadable(Unsupported);
    EXECUTION_PLAN_RUN_ONLY_INTERMEDIATE_UIDS 404 [Int64] One;
    EXECUTION_PLAN_JSON_REPRESENTATION 405 [Char] Any untyped();
    EXECUTION_PLAN_KERNEL_CACHE 406 [Descriptor] -> KernelCache One required() miscounted(Unsupported);
    EXECUTION_PLAN_DEVICEPROP 407 [Descriptor] -> DeviceProperties One miscounted(Unsupported) required();
}

rows! {
    /// The attributes of KNOB_CHOICE.
    KNOB_CHOICE:
    // `CUDNN_KNOB_TYPE_COUNTS`, observed: no knob.
    KNOB_CHOICE_KNOB_TYPE 600 [KnobType] One = 46;
    KNOB_CHOICE_KNOB_VALUE 601 [Int64] One = -1;
}

rows! {
    /// The attributes of KNOB_INFO.
    KNOB_INFO:
    KNOB_INFO_TYPE 1200 [KnobType] Any read_only();
    KNOB_INFO_MAXIMUM_VALUE 1201 [Int64] Any read_only();
    KNOB_INFO_MINIMUM_VALUE 1202 [Int64] Any read_only();
    KNOB_INFO_STRIDE 1203 [Int64] Any read_only();
}

rows! {
    /// The attributes of LAYOUT_INFO.
    LAYOUT_INFO:
    LAYOUT_INFO_TENSOR_UID 1100 [Int64] Any read_only();
    LAYOUT_INFO_TYPES 1101 [LayoutType] Any read_only() unreadable(AttributeType);
}

rows! {
    /// The attributes of KERNEL_CACHE.
    KERNEL_CACHE:
    KERNEL_CACHE_OPERATION_GRAPH 2400 [Descriptor] -> OperationGraph One required();
    KERNEL_CACHE_JSON_REPRESENTATION 2402 [Char] Any untyped();
    KERNEL_CACHE_REVISION 2403 [Int64] Any read_only();
    KERNEL_CACHE_ENTRY_COUNT 2404 [Int64] Any read_only();
}

/// The engine that computes a graph operation by operation. Numbers of engines never change their
/// meaning.
pub const OPERATION_BY_OPERATION: i64 = 1;
/// How many numbers of engines there are: as many as cudnn-frontend names one of (5, for gradients
/// of attention in FP8).
pub(super) const ENGINES: i64 = 6;
/// The mode `CUDNN_HEUR_MODE_A`.
const MODE_A: i64 = 3;

pub(super) fn check_engine(check: Check<'_>) -> Result<()> {
    check.object_or(ErrorKind::NullPointer, ENGINE_OPERATION_GRAPH)?;
    let index = check.fields.int_or(ENGINE_GLOBAL_INDEX, -1);
    // A program that names an engine of the original gets the graph computed all the same.
    let most = if Mode::current().is_strict() { OPERATION_BY_OPERATION } else { ENGINES - 1 };
    let rule = "the engine of a graph is 1, which computes operation by operation; 2 to 5 are the same one";
    let fits = (OPERATION_BY_OPERATION..=most).contains(&index);
    check.require_or(fits, ErrorKind::NotSupported, ENGINE_GLOBAL_INDEX, rule)
}

pub(super) fn check_config(check: Check<'_>) -> Result<()> {
    check.object_or(ErrorKind::NotFinalized, ENGINECFG_ENGINE).map(drop)
}

pub(super) fn check_heuristic(check: Check<'_>) -> Result<()> {
    match check.fields.object(ENGINEHEUR_OPERATION_GRAPH) {
        None => Err(check.bad(ENGINEHEUR_OPERATION_GRAPH, "has to be set")),
        Some(_) => {
            let graph = check.object_or(ErrorKind::NotFinalized, ENGINEHEUR_OPERATION_GRAPH)?;
            let is_a = check.fields.int_or(ENGINEHEUR_MODE, 0) == MODE_A;
            if !is_a || !Mode::current().is_strict() {
                return Ok(());
            }
            let mut operations = graph.fields.links(OPERATIONGRAPH_OPS).iter().flatten();
            operations.try_for_each(|operation| norm::refuse_mode_a(operation))
        }
    }
}

pub(super) fn check_plan(check: Check<'_>) -> Result<()> {
    if is_text(check.fields) {
        let device = [EXECUTION_PLAN_HANDLE, EXECUTION_PLAN_DEVICEPROP];
        let rule = "takes a handle or a device besides, for which the plan is";
        let known = device.iter().any(|&attribute| check.fields.has(attribute));
        return check.require(known, EXECUTION_PLAN_JSON_REPRESENTATION, rule);
    }
    check.object_or(ErrorKind::NotFinalized, EXECUTION_PLAN_ENGINE_CONFIG).map(drop)
}

pub(super) fn check_kernel_cache(check: Check<'_>) -> Result<()> {
    check.object_or(ErrorKind::NotFinalized, KERNEL_CACHE_OPERATION_GRAPH).map(drop)
}

/// Whether a plan is made from its text.
pub(super) fn is_text(plan: &Fields) -> bool {
    plan.has(EXECUTION_PLAN_JSON_REPRESENTATION) && plan.object(EXECUTION_PLAN_ENGINE_CONFIG).is_none()
}

/// The configuration of the engine that computes a graph, which takes so much workspace.
pub fn configuration(graph: &Arc<Object>, workspace: usize) -> Arc<Object> {
    let object = |kind, values: Vec<(i32, Value)>| {
        let mut fields = Fields::default();
        values.into_iter().for_each(|(attribute, value)| fields.set(attribute, value));
        Arc::new(Object { kind, fields, tensor: None, is_finalised: true })
    };
    let engine = object(
        Kind::Engine,
        vec![
            (ENGINE_OPERATION_GRAPH, Value::Links(vec![Some(Arc::clone(graph))])),
            (ENGINE_GLOBAL_INDEX, Value::Ints(Type::Int64, vec![OPERATION_BY_OPERATION])),
        ],
    );
    let size = i64::try_from(workspace).unwrap_or(i64::MAX);
    let mut values = vec![
        (ENGINECFG_ENGINE, Value::Links(vec![Some(engine)])),
        (ENGINECFG_WORKSPACE_SIZE, Value::Ints(Type::Int64, vec![size])),
    ];
    values.extend(shared_memory(graph));
    object(Kind::EngineConfig, values)
}

/// The shared memory that an engine asks for at run time: none. As the original, engines of graphs
/// with a convolution or a normalisation do not tell.
pub fn shared_memory(graph: &Object) -> Option<(i32, Value)> {
    use Kind::{
        ConvolutionBackwardData, ConvolutionBackwardFilter, ConvolutionForward, NormBackward, NormForward,
    };
    let silent = |operation: &Arc<Object>| {
        matches!(
            operation.kind,
            ConvolutionForward
                | ConvolutionBackwardData
                | ConvolutionBackwardFilter
                | NormForward
                | NormBackward
        )
    };
    let tells = !graph.fields.links(OPERATIONGRAPH_OPS).iter().flatten().any(silent);
    tells.then(|| (ENGINECFG_SHARED_MEMORY_USED, Value::Ints(Type::Int32, vec![0])))
}

/// The graph of an engine, of its configuration, of a plan or of heuristics.
pub fn graph_of(object: &Object) -> Option<&Arc<Object>> {
    let fields = &object.fields;
    match object.kind {
        Kind::OperationGraph => None,
        Kind::Engine => fields.object(ENGINE_OPERATION_GRAPH),
        Kind::EngineHeuristic => fields.object(ENGINEHEUR_OPERATION_GRAPH),
        Kind::EngineConfig => graph_of(fields.object(ENGINECFG_ENGINE)?),
        Kind::ExecutionPlan => graph_of(fields.object(EXECUTION_PLAN_ENGINE_CONFIG)?),
        _ => None,
    }
}
