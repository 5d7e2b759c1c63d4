//! Objects of the original's graph interface, made of plain data: created, set and finalised.

use std::ffi::{c_int, c_void};

use super::{Device, Failed, Graph, Library, Twin};
use crate::desc::graph::engine::{
    ENGINEHEUR_DEVICEPROP, ENGINEHEUR_MODE, ENGINEHEUR_OPERATION_GRAPH, ENGINEHEUR_RESULTS,
    EXECUTION_PLAN_DEVICEPROP, EXECUTION_PLAN_ENGINE_CONFIG, EXECUTION_PLAN_HANDLE,
    EXECUTION_PLAN_WORKSPACE_SIZE,
};
use crate::desc::graph::operation_graph::{OPERATIONGRAPH_HANDLE, OPERATIONGRAPH_OPS};
use crate::desc::graph::pack::{VARIANT_PACK_DATA_POINTERS, VARIANT_PACK_UNIQUE_IDS, VARIANT_PACK_WORKSPACE};
use crate::desc::graph::{Kind, Type};

/// `CUDNN_HEUR_MODE_A` and `CUDNN_HEUR_MODE_FALLBACK`: engines by a model of their speed, then
/// those that take almost everything.
const HEURISTICS: [c_int; 2] = [3, 2];

/// Engine configurations that are tried of each heuristic.
const MOST: usize = 8;

/// Objects in the order in which they were made. They live as long as this.
pub(super) struct Objects {
    graph: Graph,
    made: Vec<Twin>,
}

impl Objects {
    pub(super) fn new(library: &'static Library) -> Objects {
        Objects { graph: Graph::new(library), made: Vec::new() }
    }

    /// A new object, set by `set`, then finalised.
    pub(super) fn make(
        &mut self, kind: Kind, set: impl FnOnce(&Setter) -> Result<(), Failed>,
    ) -> Result<*mut c_void, Failed> {
        let object = self.graph.create(kind as c_int)?;
        let pointer = object.pointer();
        set(&Setter { graph: self.graph, object: pointer })?;
        self.graph.finalize(&object)?;
        self.made.push(object);
        Ok(pointer)
    }

    /// What was made, to be kept.
    pub(super) fn into_made(self) -> Vec<Twin> {
        self.made
    }

    /// The first plan of the operations that the original makes with a workspace of at most `most`
    /// bytes, and how many it takes.
    pub(super) fn plan(
        &mut self, device: Device<'_>, operations: &[*mut c_void], most: usize,
    ) -> Result<(Twin, usize), Failed> {
        let graph = self.make(Kind::OperationGraph, |set| {
            if let Device::Handle(handle) = device {
                set.values(OPERATIONGRAPH_HANDLE, Type::Handle, &[handle.pointer()])?;
            }
            set.values(OPERATIONGRAPH_OPS, Type::Descriptor, operations)
        })?;
        let mut failure = Failed { code: 3000, text: "it offers no engine".to_owned() };
        for heuristic in HEURISTICS {
            match self.plan_by(heuristic, graph, device, most) {
                Ok(Some(plan)) => return Ok(plan),
                Ok(None) => {}
                Err(other) => failure = other,
            }
        }
        Err(failure)
    }

    fn plan_by(
        &mut self, heuristic: c_int, graph: *mut c_void, device: Device<'_>, most: usize,
    ) -> Result<Option<(Twin, usize)>, Failed> {
        let found = self.make(Kind::EngineHeuristic, |set| {
            set.values(ENGINEHEUR_OPERATION_GRAPH, Type::Descriptor, &[graph])?;
            if let Device::Described(properties) = device {
                set.object(ENGINEHEUR_DEVICEPROP, properties.pointer())?;
            }
            set.values(ENGINEHEUR_MODE, Type::HeurMode, &[heuristic])
        })?;
        let mut configs = Vec::new();
        for _ in 0..MOST {
            configs.push(self.graph.create(Kind::EngineConfig as c_int)?);
        }
        let mut pointers: Vec<*mut c_void> = configs.iter().map(Twin::pointer).collect();
        let count = self.read(found, ENGINEHEUR_RESULTS, Type::Descriptor, &mut pointers)?;
        configs.truncate(count);
        for config in &configs {
            let Ok(plan) = self.plan_of(config, device) else { continue };
            let mut size = [0_i64];
            self.read(plan.pointer(), EXECUTION_PLAN_WORKSPACE_SIZE, Type::Int64, &mut size)?;
            let size = usize::try_from(size[0]).unwrap_or(usize::MAX);
            if size <= most {
                self.made.append(&mut configs);
                return Ok(Some((plan, size)));
            }
        }
        Ok(None)
    }

    fn plan_of(&self, config: &Twin, device: Device<'_>) -> Result<Twin, Failed> {
        let plan = self.graph.create(Kind::ExecutionPlan as c_int)?;
        let set = Setter { graph: self.graph, object: plan.pointer() };
        match device {
            Device::Handle(handle) => {
                set.values(EXECUTION_PLAN_HANDLE, Type::Handle, &[handle.pointer()])?;
            }
            Device::Described(properties) => {
                set.object(EXECUTION_PLAN_DEVICEPROP, properties.pointer())?;
            }
        }
        set.values(EXECUTION_PLAN_ENGINE_CONFIG, Type::Descriptor, &[config.pointer()])?;
        self.graph.finalize(&plan)?;
        Ok(plan)
    }

    /// Reads an attribute into `places`; how many values it has there.
    fn read<T>(
        &self, object: *mut c_void, attribute: c_int, ty: Type, places: &mut [T],
    ) -> Result<usize, Failed> {
        let (mut count, most) = (0_i64, places.len());
        // SAFETY: an object that is alive, and as many places of the type as are asked for.
        unsafe {
            let array = places.as_mut_ptr().cast();
            self.graph.get(object, [attribute, ty as c_int], most as i64, &raw mut count, array)
        }?;
        Ok(usize::try_from(count).unwrap_or(0).min(most))
    }
}

/// Sets the attributes of one object.
pub(super) struct Setter {
    graph: Graph,
    object: *mut c_void,
}

impl Setter {
    /// Values of the type, each as it lies in C.
    pub(super) fn values<T: Copy>(&self, attribute: c_int, ty: Type, values: &[T]) -> Result<(), Failed> {
        let array = values.as_ptr().cast();
        // SAFETY: an object that is alive, and as many values of the type.
        unsafe { self.graph.set(self.object, [attribute, ty as c_int], values.len() as i64, array) }
    }

    pub(super) fn ints(&self, attribute: c_int, values: &[i64]) -> Result<(), Failed> {
        self.values(attribute, Type::Int64, values)
    }

    /// An enumerator.
    pub(super) fn code(&self, attribute: c_int, ty: Type, code: c_int) -> Result<(), Failed> {
        self.values(attribute, ty, &[code])
    }

    pub(super) fn yes(&self, attribute: c_int) -> Result<(), Failed> {
        self.values(attribute, Type::Boolean, &[1_u8])
    }

    pub(super) fn object(&self, attribute: c_int, object: *mut c_void) -> Result<(), Failed> {
        self.values(attribute, Type::Descriptor, &[object])
    }

    pub(super) fn double(&self, attribute: c_int, value: f64) -> Result<(), Failed> {
        self.values(attribute, Type::Double, &[value])
    }
}

/// Runs a plan on the data of its tensors.
///
/// # Errors
/// As the original answers.
///
/// # Safety
/// The handle and the plan are alive; the pointers are valid for the tensors of their numbers,
/// `workspace` for what the plan takes.
pub(super) unsafe fn execute(
    library: &'static Library, [handle, plan]: [*mut c_void; 2], data: &[(i64, *mut c_void)],
    workspace: *mut c_void,
) -> Result<(), Failed> {
    let (numbers, pointers): (Vec<i64>, Vec<*mut c_void>) = data.iter().copied().unzip();
    let mut objects = Objects::new(library);
    let pack = objects.make(Kind::VariantPack, |set| {
        set.ints(VARIANT_PACK_UNIQUE_IDS, &numbers)?;
        set.values(VARIANT_PACK_DATA_POINTERS, Type::Pointer, &pointers)?;
        set.values(VARIANT_PACK_WORKSPACE, Type::Pointer, &[workspace])
    })?;
    // SAFETY: as the caller says.
    unsafe { objects.graph.run("cudnnBackendExecute", [handle, plan, pack], std::ptr::null_mut()) }
}
