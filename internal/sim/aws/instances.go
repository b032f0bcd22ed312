package aws

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"time"
)

// keepTerminated is how long a terminated instance can still be described.
const keepTerminated = time.Hour

// stateGone is the end of a terminated instance's record; it is never seen from outside.
const stateGone = "gone"

// instance finds a visible instance.
func (r *site) instance(id string, now time.Time) (*Instance, error) {
	if err := CheckID("i", id); err != nil {
		return nil, err
	}
	i, ok := r.data.instances[id]
	if !ok || !seen(i.Visible, now) {
		return nil, NotFound(id)
	}
	return i, nil
}

// RunInstances launches MaxCount instances in state pending. A repeated ClientToken with the same
// parameters returns the first reservation in its present state; with other parameters it is
// IdempotentParameterMismatch.
func (r InstanceCalls) RunInstances(in RunInstancesInput) (Reservation, error) {
	var out Reservation
	err := r.mutate("RunInstances", func(now time.Time) ([]string, error) {
		request, err := json.Marshal(in)
		if err != nil {
			return nil, fmt.Errorf("digest of the request: %w", err)
		}
		digest := shortHash(string(request))
		if t, ok := r.data.runTokens[in.ClientToken]; ok && in.ClientToken != "" {
			if t.Request != digest {
				return nil, refuse("IdempotentParameterMismatch", "Arguments on this idempotent request are inconsistent with arguments used in previous request(s).")
			}
			out = r.reservation(t)
			return nil, errNothingChanged
		}
		plans, err := r.checkRun(&in, now)
		if err != nil {
			return nil, err
		}
		t, touched, err := r.launch(&in, plans, now)
		if err != nil {
			return nil, err
		}
		t.Request = digest
		if in.ClientToken != "" {
			r.data.runTokens[in.ClientToken] = t
		}
		out = r.reservation(t)
		return touched, nil
	})
	return out, err
}

func (r InstanceCalls) reservation(t runToken) Reservation {
	out := Reservation{ID: t.Reservation, OwnerID: r.at.account}
	for _, id := range t.Instances {
		if i := r.data.instances[id]; i != nil {
			out.Instances = append(out.Instances, joined(i, r.data.attached(id)))
		}
	}
	return out
}

// checkRun checks the parameters and plans the interfaces of one instance.
func (r InstanceCalls) checkRun(in *RunInstancesInput, now time.Time) ([]nicPlan, error) {
	if in.ImageID == "" {
		return nil, refuse("MissingParameter", "The request must contain the parameter ImageId")
	}
	if in.MinCount < 1 || in.MaxCount < in.MinCount {
		return nil, invalidValue("Value (%d) for parameter maxCount is invalid: minCount is %d", in.MaxCount, in.MinCount)
	}
	specs := in.Interfaces
	if len(specs) == 0 {
		specs = []InterfaceSpec{{SubnetID: in.SubnetID, GroupIDs: in.GroupIDs, PrivateIP: in.PrivateIP, IPv6Count: in.IPv6Count}}
	} else if in.SubnetID != "" || len(in.GroupIDs) > 0 || in.PrivateIP != "" || in.IPv6Count > 0 {
		return nil, refuse(
			"InvalidParameterCombination",
			"Network interfaces and an instance-level subnet ID, security groups or addresses may not be specified on the same request",
		)
	}
	for _, t := range in.Tags {
		if err := r.checkNewTags(t); err != nil {
			return nil, err
		}
	}
	var plans []nicPlan
	taken := map[netip.Addr]bool{}
	devices := map[int]bool{}
	for _, s := range specs {
		if devices[s.DeviceIndex] {
			return nil, invalidValue("Each network interface requires a unique device index (%d is repeated).", s.DeviceIndex)
		}
		devices[s.DeviceIndex] = true
		if in.MaxCount > 1 && (s.PrivateIP != "" || len(s.SecondaryIPs)+len(s.IPv6) > 0 || s.NetworkInterfaceID != "") {
			return nil, refuse("InvalidParameterCombination", "Addresses and existing network interfaces cannot be given for more than one instance")
		}
		p, err := Interfaces(r).planNIC(s, now, taken)
		if err != nil {
			return nil, err
		}
		plans = append(plans, p)
	}
	if !devices[0] {
		return nil, invalidValue("A primary network interface (device index 0) is required.")
	}
	slices.SortFunc(plans, func(a, b nicPlan) int { return a.spec.DeviceIndex - b.spec.DeviceIndex })
	if v := plans[0].vpc(); slices.ContainsFunc(plans, func(p nicPlan) bool { return p.vpc() != v }) {
		return nil, refuse("InvalidParameter", "The network interfaces of an instance must be in the same VPC")
	}
	return plans, nil
}

func (p nicPlan) vpc() string {
	if p.existing != nil {
		return p.existing.VPCID
	}
	return p.subnet.VPCID
}

// launch makes the instances. Only the addresses of the subnets can still run out, so that is found
// out before anything is stored.
func (r InstanceCalls) launch(in *RunInstancesInput, plans []nicPlan, now time.Time) (runToken, []string, error) {
	t := runToken{Reservation: r.w.newID("r")}
	used := r.used(plans[0].vpc())
	var instances []*Instance
	nics := map[string][]*NetworkInterface{}
	for index := range in.MaxCount {
		i := &Instance{
			ID: r.w.newID("i"), Account: r.at.account, ReservationID: t.Reservation, ImageID: in.ImageID,
			InstanceType: in.InstanceType, KeyName: in.KeyName, ClientToken: in.ClientToken, LaunchIndex: index,
			LaunchTime: now.UTC().Truncate(time.Second), Tenancy: "default", State: Pending, Tags: cloneTags(in.Tags["instance"]),
			Attributes: in.Attributes,
			Visible:    now.Add(r.w.visibility),
		}
		for _, p := range plans {
			n := p.existing
			if n == nil {
				var err error
				if n, err = Interfaces(r).newNIC(p, now, used); err != nil {
					return t, nil, err
				}
				n.Tags = cloneTags(in.Tags["network-interface"])
			}
			nics[i.ID] = append(nics[i.ID], n)
		}
		i.VPCID, i.SubnetID, i.Zone = nics[i.ID][0].VPCID, nics[i.ID][0].SubnetID, nics[i.ID][0].Zone
		instances = append(instances, i)
	}
	var touched []string
	for _, i := range instances {
		r.data.instances[i.ID] = i
		t.Instances = append(t.Instances, i.ID)
		touched = append(touched, i.ID)
		for k, n := range nics[i.ID] {
			n.Status = StatusInUse
			n.Attachment = &Attachment{
				ID: r.w.newID("eni-attach"), InstanceID: i.ID, DeviceIndex: plans[k].spec.DeviceIndex, Status: "attached",
				AttachTime: i.LaunchTime, DeleteOnTermination: plans[k].existing == nil && !plans[k].spec.KeepOnTermination,
			}
			r.data.nics[n.ID] = n
			touched = append(touched, n.ID)
		}
		r.w.later(now, r.w.transition, r.at, i.ID, Pending.String(), Running.String())
	}
	return t, touched, nil
}

// StartInstances starts stopped instances. All or nothing.
func (r InstanceCalls) StartInstances(ids []string) ([]StateChange, error) {
	from := []InstanceState{Stopped, Running, Pending}
	return r.power("StartInstances", "started", ids, from, func(i *Instance, now time.Time) {
		if i.State == Stopped {
			i.State, i.TransitionReason = Pending, ""
			r.lendPublicIPs(i)
			r.w.later(now, r.w.transition, r.at, i.ID, Pending.String(), Running.String())
		}
	})
}

// StopInstances stops running instances; they keep interfaces, private addresses and groups, and
// give back public addresses that were lent to them. With force the guest is not waited for: the
// stopping state has no length. All or nothing.
func (r InstanceCalls) StopInstances(ids []string, force bool) ([]StateChange, error) {
	delay := r.w.transition
	if force {
		delay = 0
	}
	from := []InstanceState{Running, Pending, Stopping, Stopped}
	return r.power("StopInstances", "stopped", ids, from, func(i *Instance, now time.Time) {
		if i.State == Running || i.State == Pending {
			i.State, i.TransitionReason = Stopping, userInitiated(now)
			r.takeBackPublicIPs(i)
			r.w.later(now, delay, r.at, i.ID, Stopping.String(), Stopped.String())
		}
	})
}

func userInitiated(now time.Time) string {
	return "User initiated (" + now.UTC().Format("2006-01-02 15:04:05") + " GMT)"
}

func (r InstanceCalls) takeBackPublicIPs(i *Instance) {
	for _, n := range r.data.attached(i.ID) {
		for k := range n.PrivateIPs {
			if n.PrivateIPs[k].AutoPublic {
				n.PrivateIPs[k].Public = netip.Addr{}
			}
		}
	}
}

func (r InstanceCalls) lendPublicIPs(i *Instance) {
	for _, n := range r.data.attached(i.ID) {
		for k := range n.PrivateIPs {
			if n.PrivateIPs[k].AutoPublic {
				n.PrivateIPs[k].Public = r.w.newPublicIP()
			}
		}
	}
}

// TerminateInstances ends instances. Their interfaces go when the state reaches terminated: deleted
// if they were made with the instance, else detached. The record stays for an hour. All or nothing.
func (r InstanceCalls) TerminateInstances(ids []string) ([]StateChange, error) {
	from := []InstanceState{Pending, Running, ShuttingDown, Terminated, Stopping, Stopped}
	return r.power("TerminateInstances", "terminated", ids, from, func(i *Instance, now time.Time) {
		if i.State != Terminated && i.State != ShuttingDown {
			i.State, i.TransitionReason = ShuttingDown, userInitiated(now)
			r.w.later(now, r.w.transition, r.at, i.ID, ShuttingDown.String(), Terminated.String())
			r.w.later(now, r.w.transition+keepTerminated, r.at, i.ID, Terminated.String(), stateGone)
		}
	})
}

// power turns instances that are all in one of the states of from.
func (r InstanceCalls) power(action, verb string, ids []string, from []InstanceState, turn func(*Instance, time.Time)) ([]StateChange, error) {
	var out []StateChange
	err := r.mutate(action, func(now time.Time) ([]string, error) {
		if len(ids) == 0 {
			return nil, refuse("MissingParameter", "The request must contain the parameter InstanceId")
		}
		var all []*Instance
		for _, id := range ids {
			i, err := r.instance(id, now)
			if err != nil {
				return nil, err
			}
			if !slices.Contains(from, i.State) {
				return nil, refuse("IncorrectInstanceState", "The instance '%s' is not in a state from which it can be %s.", i.ID, verb)
			}
			if err := i.protected(verb); err != nil {
				return nil, err
			}
			if !slices.Contains(all, i) {
				all = append(all, i)
			}
		}
		for _, i := range all {
			before := i.State
			turn(i, now)
			out = append(out, StateChange{i.ID, before, i.State})
		}
		return ids, nil
	})
	return out, err
}
