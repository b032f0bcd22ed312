package controller

import (
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/nephele-io/nephele/internal/cloud/audit"
	"github.com/nephele-io/nephele/internal/cloud/inventory"
	"github.com/nephele-io/nephele/internal/platform/tracing"
)

// process is a controller that runs. Run makes it, and assemble fills in what has to be there
// before anything starts; after that nothing of it is set.
type process struct {
	Options
	// epoch names it.
	epoch string
	// clouds is what it knows of cloud accounts; nil if another one has them.
	clouds *inventory.Inventory
	// loopback leads its parts to the API that it serves.
	loopback *loopback
	// loops are those that say whether they are well.
	loops   *loops
	metrics *controllerMetrics
	// record is that of changes in clouds, and past the history of policies.
	record *audit.Record
	past   *past
	// tracer is nil if traces are off.
	tracer *tracing.Tracer
	// set is the cluster's part in a set of clusters.
	set *set
}

func newProcess(o Options) *process {
	return &process{Options: o, epoch: newEpoch(), loopback: newLoopback(), loops: &loops{}, metrics: newControllerMetrics(metrics.Registry)}
}
