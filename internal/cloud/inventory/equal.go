package inventory

import (
	"net/netip"

	"maps"
	"slices"

	"github.com/nephele-io/nephele/internal/cloud"
)

// sameContent reports whether two snapshots show the same, whenever that was.
func sameContent(a, b *cloud.Snapshot) bool {
	return a.Scope == b.Scope && a.OwnerID == b.OwnerID && a.GroupsBeside == b.GroupsBeside && slices.EqualFunc(a.Networks, b.Networks, sameNetwork) &&
		slices.EqualFunc(a.Peerings, b.Peerings, samePeering) && sameSlice(a.VMs, b.VMs, sameVM) && sameSlice(a.Interfaces, b.Interfaces, sameInterface) &&
		sameSlice(a.Groups, b.Groups, sameGroup) && slices.EqualFunc(a.PrefixLists, b.PrefixLists, samePrefixList) && slices.Equal(a.References, b.References) &&
		slices.EqualFunc(a.ACLs, b.ACLs, sameACL) && sameServices(a, b)
}

func sameServices(a, b *cloud.Snapshot) bool {
	return sameSlice(a.Services, b.Services, sameService) && slices.EqualFunc(a.ServiceFaults, b.ServiceFaults, sameFault) &&
		maps.EqualFunc(a.ServiceTags, b.ServiceTags, func(x, y []netip.Prefix) bool { return slices.Equal(x, y) })
}

func sameService(x, y *cloud.Service) bool {
	return x.ID == y.ID && x.Kind == y.Kind && x.Name == y.Name && x.NetworkID == y.NetworkID && x.DNSName == y.DNSName && x.Fixed == y.Fixed &&
		x.Behind == y.Behind && x.Ambiguous == y.Ambiguous && maps.Equal(x.Tags, y.Tags) && slices.Equal(x.Ports, y.Ports) && slices.Equal(x.Interfaces, y.Interfaces) &&
		slices.Equal(x.Private, y.Private) && slices.Equal(x.Public, y.Public) && slices.Equal(x.GroupIDs, y.GroupIDs) &&
		slices.EqualFunc(x.Listeners, y.Listeners, sameListener)
}

func sameListener(x, y cloud.ServiceListener) bool {
	return x.Protocol == y.Protocol && x.Port == y.Port && slices.Equal(x.Addrs, y.Addrs) && slices.EqualFunc(x.Groups, y.Groups, func(a, b cloud.TargetGroup) bool {
		return a.ID == b.ID && a.Name == b.Name && a.NetworkID == b.NetworkID && a.Preserved == b.Preserved && a.Transparent == b.Transparent && a.Unknown == b.Unknown &&
			slices.Equal(a.Probes, b.Probes) && slices.Equal(a.Targets, b.Targets)
	})
}

func sameFault(x, y cloud.ServiceFault) bool {
	return x.API == y.API && x.Right == y.Right && slices.Equal(x.Kinds, y.Kinds) && x.Err.Error() == y.Err.Error()
}

func sameACL(x, y cloud.NetworkACL) bool {
	return x.ID == y.ID && x.Name == y.Name && x.Stateful == y.Stateful && slices.Equal(x.SubnetIDs, y.SubnetIDs) && slices.EqualFunc(x.Entries, y.Entries, sameEntry)
}

func sameEntry(x, y cloud.ACLEntry) bool {
	return x.Number == y.Number && x.Name == y.Name && x.Egress == y.Egress && x.Allow == y.Allow && x.Protocol == y.Protocol && x.From == y.From && x.To == y.To &&
		x.Unsure == y.Unsure && slices.Equal(x.Peers, y.Peers) && slices.Equal(x.Own, y.Own)
}

// sameSlice is slices.EqualFunc for slices that are often one and the same.
func sameSlice[T any](a, b []T, same func(x, y *T) bool) bool {
	if len(a) != len(b) {
		return false
	}
	if len(a) > 0 && &a[0] == &b[0] {
		return true
	}
	for i := range a {
		if !same(&a[i], &b[i]) {
			return false
		}
	}
	return true
}

func sameNetwork(x, y cloud.Network) bool {
	return x.ID == y.ID && x.Name == y.Name && x.OwnerID == y.OwnerID && slices.Equal(x.CIDRs, y.CIDRs) && maps.Equal(cloud.LastingTags(x.Tags), cloud.LastingTags(y.Tags))
}

func samePeering(x, y cloud.Peering) bool {
	return x.ID == y.ID && x.ByAddress == y.ByAddress && sameEnd(x.A, y.A) && sameEnd(x.B, y.B)
}

func sameEnd(x, y cloud.PeeringEnd) bool {
	return x.NetworkID == y.NetworkID && x.OwnerID == y.OwnerID && x.Region == y.Region && slices.Equal(x.CIDRs, y.CIDRs)
}

func sameVM(x, y *cloud.VM) bool {
	return x.ID == y.ID && x.UID == y.UID && x.Created.Equal(y.Created) && x.Name == y.Name && x.NetworkID == y.NetworkID && x.State == y.State &&
		slices.Equal(x.Interfaces, y.Interfaces) && maps.Equal(x.Tags, y.Tags)
}

func sameInterface(x, y *cloud.Interface) bool {
	return x.ID == y.ID && x.NetworkID == y.NetworkID && x.SubnetID == y.SubnetID && x.OwnerID == y.OwnerID && x.VMID == y.VMID &&
		x.Service == y.Service && x.Alone == y.Alone && x.Unread == y.Unread && x.MAC == y.MAC && x.Managed == y.Managed && x.Front == y.Front &&
		x.Requester == y.Requester && x.Type == y.Type &&
		x.Untouchable == y.Untouchable && x.Description == y.Description && x.DNSName == y.DNSName && slices.Equal(x.PrivateIPs, y.PrivateIPs) &&
		slices.Equal(x.Prefixes, y.Prefixes) &&
		slices.Equal(x.PublicIPs, y.PublicIPs) && slices.Equal(x.GroupIDs, y.GroupIDs) && maps.Equal(x.Tags, y.Tags)
}

func sameGroup(x, y *cloud.Group) bool {
	return x.ID == y.ID && x.Name == y.Name && x.NetworkID == y.NetworkID && x.OwnerID == y.OwnerID && x.Description == y.Description &&
		x.Default == y.Default && x.View == y.View && slices.Equal(x.Rules, y.Rules) && maps.Equal(x.Tags, y.Tags)
}

func samePrefixList(x, y cloud.PrefixList) bool {
	return x.ID == y.ID && x.Name == y.Name && x.OwnerID == y.OwnerID && x.MaxEntries == y.MaxEntries && slices.Equal(x.Entries, y.Entries)
}

// changedVMs notes the ids of the VMs that are not shown alike, with their interfaces, and reports
// whether the networks and the services are alike. It takes the time of a walk over both.
func changedVMs(before, after *cloud.Snapshot, into map[string]bool) (sameFrame bool) {
	eachDifference(before.VMs, after.VMs, func(v *cloud.VM) string { return v.ID }, sameVM, func(v *cloud.VM) { into[v.ID] = true })
	eachDifference(before.Interfaces, after.Interfaces, func(n *cloud.Interface) string { return n.ID }, sameInterface, func(n *cloud.Interface) {
		if n.VMID != "" {
			into[n.VMID] = true
		}
	})
	return before.OwnerID == after.OwnerID && slices.EqualFunc(before.Networks, after.Networks, sameNetwork) && sameServices(before, after)
}

// eachDifference walks two sorted lists and calls tell for each object that is not in both alike,
// in both its forms.
func eachDifference[T any](a, b []T, id func(*T) string, same func(x, y *T) bool, tell func(*T)) {
	if len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0]) {
		return
	}
	for len(a) > 0 || len(b) > 0 {
		switch {
		case len(b) == 0 || len(a) > 0 && id(&a[0]) < id(&b[0]):
			tell(&a[0])
			a = a[1:]
		case len(a) == 0 || id(&b[0]) < id(&a[0]):
			tell(&b[0])
			b = b[1:]
		default:
			if !same(&a[0], &b[0]) {
				tell(&a[0])
				tell(&b[0])
			}
			a, b = a[1:], b[1:]
		}
	}
}
