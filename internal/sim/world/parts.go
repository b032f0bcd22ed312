package world

import (
	"github.com/nephele-io/nephele/internal/sim/aws/compute"
	"github.com/nephele-io/nephele/internal/sim/aws/group"
	"github.com/nephele-io/nephele/internal/sim/aws/network"
	"github.com/nephele-io/nephele/internal/sim/aws/service"
)

// Routes returns that part of the region.
func (r *Region) Routes() network.Routes { return network.RoutesAt(r.s) }

// ACLs returns that part of the region.
func (r *Region) ACLs() network.ACLs { return network.ACLsAt(r.s) }

// Templates returns that part of the region.
func (r *Region) Templates() compute.Templates { return compute.TemplatesAt(r.s) }

// Lists returns that part of the region.
func (r *Region) Lists() group.PrefixLists { return group.PrefixListsAt(r.s) }

// Peerings returns that part of the region.
func (r *Region) Peerings() network.Peerings { return network.PeeringsAt(r.s) }

// Networks returns that part of the region.
func (r *Region) Networks() network.Networks { return network.NetworksAt(r.s) }

// Groups returns that part of the region.
func (r *Region) Groups() group.Groups { return group.GroupsAt(r.s) }

// Interfaces returns that part of the region.
func (r *Region) Interfaces() compute.Interfaces { return compute.InterfacesAt(r.s) }

// InstanceCalls returns that part of the region.
func (r *Region) InstanceCalls() compute.Instances { return compute.InstancesAt(r.s) }

// Services returns that part of the region.
func (r *Region) Services() service.Services { return service.ServicesAt(r.s) }
