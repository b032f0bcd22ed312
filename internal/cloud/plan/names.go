package plan

import (
	"github.com/nephele-io/nephele/internal/cloud/plan/addrset"
	"github.com/nephele-io/nephele/internal/cloud/plan/flow"
)

// The names of the layers below that are part of what Compute takes and gives.
type (
	// Set is a set of addresses.
	Set = addrset.Set
	// Service is a set of packets as seen by protocol and port.
	Service = flow.Service
	// Traffic is what a Lowerer turns into rules.
	Traffic = flow.Traffic
	// Cell is the part of Traffic for one service.
	Cell = flow.Cell
)
