package aws

import (
	"net/netip"
	"slices"
	"time"
)

// This file is about interfaces that live apart from an instance: made, attached, detached and
// deleted by themselves.

func (r Interfaces) nic(id string, now time.Time) (*NetworkInterface, error) {
	return lookUp("eni", id, r.data.nics, func(n *NetworkInterface) time.Time { return n.Visible }, now)
}

// ownNIC is nic for what changes one: those of a service of the cloud are not the account's to
// change.
func (r Interfaces) ownNIC(id string, now time.Time) (*NetworkInterface, error) {
	n, err := r.nic(id, now)
	if err == nil && n.RequesterManaged {
		return nil, &Error{"AuthFailure", "You do not have permission to access the specified resource.", 401}
	}
	return n, err
}

// CreateNetworkInterface makes an interface that is attached to nothing.
func (r Interfaces) CreateNetworkInterface(spec InterfaceSpec, tags Tags, token string) (NetworkInterface, error) {
	var out NetworkInterface
	err := r.mutate("CreateNetworkInterface", func(now time.Time) ([]string, error) {
		if x := repeated(&r.data.fabric, "CreateNetworkInterface", token, r.data.nics); x != nil {
			out = cloneNIC(x)
			return nil, errNothingChanged
		}
		if spec.SubnetID == "" {
			return nil, refuse("MissingParameter", "The request must contain the parameter subnetId")
		}
		if err := r.checkNewTags(tags); err != nil {
			return nil, err
		}
		p, err := r.planNIC(spec, now, map[netip.Addr]bool{})
		if err != nil {
			return nil, err
		}
		// A public address is assigned when an instance is launched with the interface, not before.
		never := false
		p.spec.AssociatePublicIP = &never
		n, err := r.newNIC(p, now, r.used(p.vpc()))
		if err != nil {
			return nil, err
		}
		n.Tags = cloneTags(tags)
		r.data.nics[n.ID] = n
		r.data.remember("CreateNetworkInterface", token, n.ID)
		out = cloneNIC(n)
		return []string{n.ID}, nil
	})
	return out, err
}

// DeleteNetworkInterface deletes an interface that is attached to nothing.
func (r Interfaces) DeleteNetworkInterface(id string) error {
	return r.mutate("DeleteNetworkInterface", func(now time.Time) ([]string, error) {
		n, err := r.ownNIC(id, now)
		if err != nil {
			return nil, err
		}
		if n.Attachment != nil {
			return nil, invalidValue("Network interface '%s' is currently in use.", n.ID)
		}
		delete(r.data.nics, n.ID)
		return []string{n.ID}, nil
	})
}

// AttachNetworkInterface attaches an interface to a running or stopped instance of its zone and
// returns the id of the attachment.
func (r Interfaces) AttachNetworkInterface(id, instanceID string, device int) (attachment string, err error) {
	err = r.mutate("AttachNetworkInterface", func(now time.Time) ([]string, error) {
		n, err := r.ownNIC(id, now)
		if err != nil {
			return nil, err
		}
		i, err := r.instance(instanceID, now)
		if err != nil {
			return nil, err
		}
		switch {
		case n.Attachment != nil:
			return nil, refuse("InvalidNetworkInterface.InUse", "Interface: [%s] in use.", n.ID)
		case i.State != Running && i.State != Stopped && i.State != Pending:
			return nil, refuse("IncorrectState", "Instance '%s' is not in a state to which an interface can be attached.", i.ID)
		case i.Zone != n.Zone:
			return nil, refuse("InvalidParameterCombination", "You may not attach a network interface to an instance if they are not in the same availability zone")
		case device < 1:
			return nil, invalidValue("Value (%d) for parameter deviceIndex is invalid. The primary interface cannot be replaced.", device)
		}
		for _, other := range r.data.attached(i.ID) {
			if other.Attachment.DeviceIndex == device {
				return nil, invalidValue("Instance '%s' already has an interface attached at device index '%d'.", i.ID, device)
			}
		}
		attachment = r.w.newID("eni-attach")
		n.Status = StatusInUse
		n.Attachment = &Attachment{
			ID: attachment, InstanceID: i.ID, DeviceIndex: device, Status: "attached", AttachTime: now.UTC().Truncate(time.Second),
		}
		return []string{n.ID, i.ID}, nil
	})
	return attachment, err
}

// DetachNetworkInterface ends an attachment. The primary interface of an instance cannot be
// detached.
func (r Interfaces) DetachNetworkInterface(attachment string) error {
	return r.mutate("DetachNetworkInterface", func(time.Time) ([]string, error) {
		n := r.attachment(attachment)
		switch {
		case n == nil:
			return nil, refuse("InvalidAttachmentID.NotFound", "The interface attachment '%s' does not exist.", attachment)
		case n.RequesterManaged || n.Attachment.InstanceID == "":
			return nil, refuse("OperationNotPermitted", "You are not allowed to manage '%s' attachments.", attachment)
		case n.Attachment.DeviceIndex == 0:
			return nil, refuse("OperationNotPermitted", "The network interface at device index 0 and networkCard index 0 cannot be detached.")
		}
		touched := []string{n.ID, n.Attachment.InstanceID}
		n.Attachment, n.Status = nil, StatusAvailable
		return touched, nil
	})
}

func (r Interfaces) attachment(id string) *NetworkInterface {
	for _, n := range r.data.nics {
		if n.Attachment != nil && n.Attachment.ID == id {
			return n
		}
	}
	return nil
}

// InterfaceChange is one attribute of an interface; exactly one is set.
type InterfaceChange struct {
	Description         *string
	SourceDestCheck     *bool
	Attachment          string // with DeleteOnTermination
	DeleteOnTermination *bool
}

// ModifyNetworkInterface changes an attribute of an interface; see ModifyNetworkInterfaceGroups for
// its groups.
func (r Interfaces) ModifyNetworkInterface(id string, c InterfaceChange) error {
	return r.mutate("ModifyNetworkInterfaceAttribute", func(now time.Time) ([]string, error) {
		n, err := r.ownNIC(id, now)
		if err != nil {
			return nil, err
		}
		switch {
		case c.Description != nil:
			if !validDescription(*c.Description) {
				return nil, invalidValue("Value (%s) for parameter description is invalid.", *c.Description)
			}
			n.Description = *c.Description
		case c.SourceDestCheck != nil:
			n.SourceDestCheck = *c.SourceDestCheck
		case c.DeleteOnTermination != nil:
			if n.Attachment == nil || n.Attachment.ID != c.Attachment {
				return nil, refuse("InvalidAttachmentID.NotFound", "The interface attachment '%s' does not exist.", c.Attachment)
			}
			n.Attachment.DeleteOnTermination = *c.DeleteOnTermination
		}
		return []string{n.ID}, nil
	})
}

// AssignPrivateIPs gives an interface further private addresses, the given ones or as many as count
// says.
func (r Interfaces) AssignPrivateIPs(id string, addresses []string, count int) (out []netip.Addr, err error) {
	err = r.mutate("AssignPrivateIpAddresses", func(now time.Time) ([]string, error) {
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
		used := r.used(s.VPCID)
		for range count {
			a, ok := freeIPv4(s, used)
			if !ok {
				return nil, refuse("InsufficientFreeAddressesInSubnet", "The specified subnet does not have enough free addresses to satisfy the request.")
			}
			used[a] = true
			found = append(found, a)
		}
		if len(found) == 0 {
			return nil, refuse("MissingParameter", "Either 'privateIpAddress' or 'secondaryPrivateIpAddressCount' must be specified.")
		}
		for _, a := range found {
			n.PrivateIPs = append(n.PrivateIPs, PrivateIP{Addr: a})
		}
		out = found
		return []string{n.ID}, nil
	})
	return out, err
}

// UnassignPrivateIPs takes secondary private addresses from an interface.
func (r Interfaces) UnassignPrivateIPs(id string, addresses []string) error {
	return r.mutate("UnassignPrivateIpAddresses", func(now time.Time) ([]string, error) {
		n, err := r.ownNIC(id, now)
		if err != nil {
			return nil, err
		}
		after := slices.Clone(n.PrivateIPs)
		for _, text := range addresses {
			at := slices.IndexFunc(after, func(p PrivateIP) bool { return p.Addr.String() == text && !p.Primary })
			if at < 0 {
				return nil, invalidValue("Some of the specified addresses are not assigned to interface %s", n.ID)
			}
			after = slices.Delete(after, at, at+1)
		}
		n.PrivateIPs = after
		return []string{n.ID}, nil
	})
}
