package cloud

import (
	"context"
	"fmt"
	"net/netip"
)

// TagNodeRoutes on a route table holds the id of the controller that writes routes to Nodes into
// it.
const TagNodeRoutes = "nephele.io/node-routes"

// HasRouter is a Provider that can lead the addresses of Pods to Nodes.
type HasRouter interface{ Router() Router }

// Router leads the addresses of Pods to Nodes.
type Router interface {
	// RouteTables returns the route tables of a region that have one of the IDs. One that is not
	// there is left out. Errors are *Error.
	RouteTables(ctx context.Context, s Scope, ids []string) ([]RouteTable, error)
	// Forwarders returns the interfaces of a region that have one of the addresses or one of the
	// IDs. Errors are *Error.
	Forwarders(ctx context.Context, s Scope, addresses []netip.Addr, ids []string) ([]Forwarder, error)
	// Route does one operation on routes. It is idempotent. Its errors are *Error.
	Route(ctx context.Context, s Scope, op RouteOp) error
}

// RouteTable is a route table of a network. Routes to the network itself are left out.
type RouteTable struct {
	ID string
	// NetworkID is empty while the table leads the packets of no network, or of several whose
	// interfaces it cannot tell apart.
	NetworkID string
	Tags      map[string]string
	Routes    []Route
}

// Route leads an address range to an interface or to something else.
type Route struct {
	Destination netip.Prefix
	// Interface is the ID of what takes the packets, or an address that no interface has. It is
	// empty if the route is somebody else's, and leads to what Other names.
	Interface string
	Other     string
}

// Forwarder is an interface that packets for other addresses can be led to.
type Forwarder struct {
	ID, VMID, NetworkID string
	Addresses           []netip.Addr
	// Forwards is true if the cloud hands it such packets, and takes those that it sends on.
	Forwards bool
}

// RouteOpKind names what a RouteOp does.
type RouteOpKind string

// The kinds of operations on routes. Each succeeds where the cloud is in the wanted state already.
const (
	// RouteOpPut makes Destination lead to Interface, whatever interface it led to before. A route
	// with Other stays, and the error is a Conflict.
	RouteOpPut RouteOpKind = "PutRoute"
	// RouteOpDelete removes the route of Destination if it leads to Interface.
	RouteOpDelete RouteOpKind = "DeleteRoute"
	// RouteOpForward sets whether Interface takes packets for other addresses.
	RouteOpForward RouteOpKind = "SetForwarding"
	// RouteOpClaim tags the table with TagNodeRoutes, RouteOpUnclaim takes the tag off. Both fail
	// with a Conflict where the tag has another value.
	RouteOpClaim   RouteOpKind = "ClaimRouteTable"
	RouteOpUnclaim RouteOpKind = "UnclaimRouteTable"
)

// RouteOp is one idempotent operation on routes.
type RouteOp struct {
	Kind RouteOpKind
	// Table is the ID of the route table; empty for RouteOpForward.
	Table       string
	Destination netip.Prefix
	Interface   string
	Forwards    bool
	// Claim is the value of TagNodeRoutes.
	Claim string
	// Reason says in a few words why.
	Reason string
}

// Subject is the ID of what the operation changes.
func (o RouteOp) Subject() string {
	if o.Table == "" {
		return o.Interface
	}
	return o.Table
}

func (o RouteOp) String() string {
	switch o.Kind {
	case RouteOpPut, RouteOpDelete:
		return fmt.Sprintf("%s %s %s to %s", o.Kind, o.Table, o.Destination, o.Interface)
	case RouteOpForward:
		return fmt.Sprintf("%s %s %t", o.Kind, o.Interface, o.Forwards)
	}
	return fmt.Sprintf("%s %s", o.Kind, o.Table)
}
