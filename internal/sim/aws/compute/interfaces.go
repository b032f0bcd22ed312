package compute

import (
	"net/netip"
	"slices"
	"time"

	"github.com/nephele-io/nephele/internal/sim/aws"
	"github.com/nephele-io/nephele/internal/sim/store"
)

func (r Interfaces) nic(id string, now time.Time) (*aws.NetworkInterface, error) {
	return store.LookUp("eni", id, r.s.Data.NICs, func(n *aws.NetworkInterface) time.Time { return n.Visible }, now)
}

// ownNIC is nic for calls that change one: an interface of a service of the cloud is not the
// account's to change.
func (r Interfaces) ownNIC(id string, now time.Time) (*aws.NetworkInterface, error) {
	n, err := r.nic(id, now)
	if err == nil && n.RequesterManaged {
		return nil, &aws.Error{Code: "AuthFailure", Message: "You do not have permission to access the specified resource.", HTTPStatus: 401}
	}
	return n, err
}

// CreateNetworkInterface makes an interface that is attached to nothing.
func (r Interfaces) CreateNetworkInterface(spec aws.InterfaceSpec, tags aws.Tags, token string) (aws.NetworkInterface, error) {
	var out aws.NetworkInterface
	err := r.s.Mutate("CreateNetworkInterface", func(now time.Time) ([]string, error) {
		if x := r.s.Data.NICs[r.s.Made("CreateNetworkInterface", token)]; x != nil {
			out = x.Clone()
			return nil, store.ErrNothingChanged
		}
		if spec.SubnetID == "" {
			return nil, aws.Refuse("MissingParameter", "The request must contain the parameter subnetId")
		}
		if err := r.s.CheckNewTags(tags); err != nil {
			return nil, err
		}
		p, err := r.planNIC(spec, now, map[netip.Addr]bool{})
		if err != nil {
			return nil, err
		}
		// A public address is assigned when an instance is launched with the interface, not before.
		never := false
		p.spec.AssociatePublicIP = &never
		n, err := r.newNIC(p, now, r.s.Used(p.vpc()))
		if err != nil {
			return nil, err
		}
		n.Tags = tags.Clone()
		r.s.Data.NICs[n.ID] = n
		r.s.Remember("CreateNetworkInterface", token, n.ID)
		out = n.Clone()
		return []string{n.ID}, nil
	})
	return out, err
}

// DeleteNetworkInterface deletes an interface that is attached to nothing.
func (r Interfaces) DeleteNetworkInterface(id string) error {
	return r.s.Mutate("DeleteNetworkInterface", func(now time.Time) ([]string, error) {
		n, err := r.ownNIC(id, now)
		if err != nil {
			return nil, err
		}
		if n.Attachment != nil {
			return nil, aws.InvalidValue("Network interface '%s' is currently in use.", n.ID)
		}
		delete(r.s.Data.NICs, n.ID)
		return []string{n.ID}, nil
	})
}

// AttachNetworkInterface attaches an interface to a running or stopped instance of its zone and
// returns the id of the attachment.
func (r Interfaces) AttachNetworkInterface(id, instanceID string, device int) (attachment string, err error) {
	err = r.s.Mutate("AttachNetworkInterface", func(now time.Time) ([]string, error) {
		n, err := r.ownNIC(id, now)
		if err != nil {
			return nil, err
		}
		i, err := r.s.Instance(instanceID, now)
		if err != nil {
			return nil, err
		}
		switch {
		case n.Attachment != nil:
			return nil, aws.Refuse("InvalidNetworkInterface.InUse", "Interface: [%s] in use.", n.ID)
		case i.State != aws.Running && i.State != aws.Stopped && i.State != aws.Pending:
			return nil, aws.Refuse("IncorrectState", "Instance '%s' is not in a state to which an interface can be attached.", i.ID)
		case i.Zone != n.Zone:
			return nil, aws.Refuse("InvalidParameterCombination", "You may not attach a network interface to an instance if they are not in the same availability zone")
		case device < 1:
			return nil, aws.InvalidValue("Value (%d) for parameter deviceIndex is invalid. The primary interface cannot be replaced.", device)
		}
		for _, other := range r.s.Data.Attached(i.ID) {
			if other.Attachment.DeviceIndex == device {
				return nil, aws.InvalidValue("Instance '%s' already has an interface attached at device index '%d'.", i.ID, device)
			}
		}
		attachment = r.s.NewID("eni-attach")
		n.Status = aws.StatusInUse
		n.Attachment = &aws.Attachment{
			ID: attachment, InstanceID: i.ID, DeviceIndex: device, Status: "attached", AttachTime: now.UTC().Truncate(time.Second),
		}
		return []string{n.ID, i.ID}, nil
	})
	return attachment, err
}

// DetachNetworkInterface ends an attachment. The primary interface of an instance cannot be
// detached.
func (r Interfaces) DetachNetworkInterface(attachment string) error {
	return r.s.Mutate("DetachNetworkInterface", func(time.Time) ([]string, error) {
		n := r.attachment(attachment)
		switch {
		case n == nil:
			return nil, aws.Refuse("InvalidAttachmentID.NotFound", "The interface attachment '%s' does not exist.", attachment)
		case n.RequesterManaged || n.Attachment.InstanceID == "":
			return nil, aws.Refuse("OperationNotPermitted", "You are not allowed to manage '%s' attachments.", attachment)
		case n.Attachment.DeviceIndex == 0:
			return nil, aws.Refuse("OperationNotPermitted", "The network interface at device index 0 and networkCard index 0 cannot be detached.")
		}
		touched := []string{n.ID, n.Attachment.InstanceID}
		n.Attachment, n.Status = nil, aws.StatusAvailable
		return touched, nil
	})
}

func (r Interfaces) attachment(id string) *aws.NetworkInterface {
	for _, n := range r.s.Data.NICs {
		if n.Attachment != nil && n.Attachment.ID == id {
			return n
		}
	}
	return nil
}

// ModifyNetworkInterface changes an attribute of an interface; see ModifyNetworkInterfaceGroups for
// its groups.
func (r Interfaces) ModifyNetworkInterface(id string, c aws.InterfaceChange) error {
	return r.s.Mutate("ModifyNetworkInterfaceAttribute", func(now time.Time) ([]string, error) {
		n, err := r.ownNIC(id, now)
		if err != nil {
			return nil, err
		}
		switch {
		case c.Description != nil:
			if !aws.ValidDescription(*c.Description) {
				return nil, aws.InvalidValue("Value (%s) for parameter description is invalid.", *c.Description)
			}
			n.Description = *c.Description
		case c.SourceDestCheck != nil:
			n.SourceDestCheck = *c.SourceDestCheck
		case c.DeleteOnTermination != nil:
			if n.Attachment == nil || n.Attachment.ID != c.Attachment {
				return nil, aws.Refuse("InvalidAttachmentID.NotFound", "The interface attachment '%s' does not exist.", c.Attachment)
			}
			n.Attachment.DeleteOnTermination = *c.DeleteOnTermination
		}
		return []string{n.ID}, nil
	})
}

// AssignPrivateIPs gives an interface further private addresses, the given ones or as many as count
// says.
func (r Interfaces) AssignPrivateIPs(id string, addresses []string, count int) (out []netip.Addr, err error) {
	err = r.s.Mutate("AssignPrivateIpAddresses", func(now time.Time) ([]string, error) {
		n, err := r.ownNIC(id, now)
		if err != nil {
			return nil, err
		}
		s, err := r.subnetFor(n.SubnetID, now)
		if err != nil {
			return nil, err
		}
		taken := map[netip.Addr]bool{}
		var found []netip.Addr
		for _, text := range addresses {
			a, err := r.claim(s, text, taken)
			if err != nil {
				return nil, err
			}
			found = append(found, a)
		}
		used := r.s.Used(s.VPCID)
		for range count {
			a, ok := store.FreeIPv4(s, used)
			if !ok {
				return nil, aws.Refuse("InsufficientFreeAddressesInSubnet", "The specified subnet does not have enough free addresses to satisfy the request.")
			}
			used[a] = true
			found = append(found, a)
		}
		if len(found) == 0 {
			return nil, aws.Refuse("MissingParameter", "Either 'privateIpAddress' or 'secondaryPrivateIpAddressCount' must be specified.")
		}
		for _, a := range found {
			n.PrivateIPs = append(n.PrivateIPs, aws.PrivateIP{Addr: a})
		}
		out = found
		return []string{n.ID}, nil
	})
	return out, err
}

// UnassignPrivateIPs takes secondary private addresses from an interface.
func (r Interfaces) UnassignPrivateIPs(id string, addresses []string) error {
	return r.s.Mutate("UnassignPrivateIpAddresses", func(now time.Time) ([]string, error) {
		n, err := r.ownNIC(id, now)
		if err != nil {
			return nil, err
		}
		after := slices.Clone(n.PrivateIPs)
		for _, text := range addresses {
			at := slices.IndexFunc(after, func(p aws.PrivateIP) bool { return p.Addr.String() == text && !p.Primary })
			if at < 0 {
				return nil, aws.InvalidValue("Some of the specified addresses are not assigned to interface %s", n.ID)
			}
			after = slices.Delete(after, at, at+1)
		}
		n.PrivateIPs = after
		return []string{n.ID}, nil
	})
}

// Interfaces are the calls about network interfaces: their addresses, groups and attachments.
type Interfaces struct{ s *store.Site }

// InterfacesAt returns the calls on a site.
func InterfacesAt(s *store.Site) Interfaces { return Interfaces{s} }

// NetworkInterfaces is DescribeNetworkInterfaces.
func (r Interfaces) NetworkInterfaces(ids ...string) (out []aws.NetworkInterface, err error) {
	r.s.Read(func(now time.Time) {
		out, err = store.ByID("eni", r.s.VisibleNICs(), ids, func(n *aws.NetworkInterface) bool { return store.Seen(n.Visible, now) }, (*aws.NetworkInterface).Clone)
	})
	return out, err
}
