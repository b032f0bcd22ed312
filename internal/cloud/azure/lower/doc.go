// Package lower translates between permitted flows and network security groups: Encode writes
// permits as rules of Azure, Decode reads such rules back, and Native says what the ordered rules
// of a foreign group allow one interface.
//
// It owns the encoding and the arithmetic of Azure's limits. Encode loses nothing: Decode of its
// result is its input. Native never allows more than the group does; what it cannot say exactly it
// leaves out, and names.
//
// Everything is a pure function; values may be used from any number of goroutines.
//
// # Where Azure does not fit the port
//
// The port was made for AWS: groups that only allow, many per interface, rules one by one. On Azure
// an interface has one network security group (NSG), an ordered list with denies and tags, written
// as a whole; peers are named by another object, the application security group (ASG).
//
//   - A group of ours is an NSG and an ASG of one name. The ASG is made and deleted first.
//   - A foreign group is a view (Group.View): its rules flattened to allows for one interface, so
//     the planner knows no denies. A view decides alone (cloud.Deciding).
//   - Foreign ASGs are never changed; only NSGs are recorded.
//   - Service tags are prefix lists with unknown entries; a Deny before a tag's Allow takes a part
//     out (Peer.Except).
//   - What cannot be said exactly makes its interface Interface.Untouchable.
//   - Our rules end with a deny after the load balancer's probes. A group's content is written
//     whole.
//   - Group references do not work across peerings (Peering.ByAddress). Subnet filters come with
//     the snapshot; no plan depends on them.
//   - This package says what a rule costs. Rights are probed (cloud.Prober), because Azure has no
//     dry-run calls.
//
// Above the adapter, a few places check these properties; none checks which cloud it is. Not
// chosen: a provider beside the port, which needs every loop twice; ordered groups in the planner,
// whose meaning depends on the interface, which the adapter knows; Virtual Network Manager, which
// is for whole networks only, takes minutes to deploy, and knows no groups.
package lower
