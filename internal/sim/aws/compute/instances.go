package compute

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/nephele-io/nephele/internal/sim/aws"
	"github.com/nephele-io/nephele/internal/sim/store"
)

// keepTerminated is how long a terminated instance can still be described.
const keepTerminated = time.Hour

// RunInstances launches MaxCount instances in state pending. A repeated ClientToken with the same
// parameters returns the first reservation in its present state; with other parameters it is
// IdempotentParameterMismatch.
func (r Instances) RunInstances(in aws.RunInstancesInput) (aws.Reservation, error) {
	var out aws.Reservation
	err := r.s.Mutate("RunInstances", func(now time.Time) ([]string, error) {
		request, err := json.Marshal(in)
		if err != nil {
			return nil, fmt.Errorf("digest of the request: %w", err)
		}
		digest := aws.ShortHash(string(request))
		if t, ok := r.s.RunTokens()[in.ClientToken]; ok && in.ClientToken != "" {
			if t.Request != digest {
				return nil, aws.Refuse("IdempotentParameterMismatch", "Arguments on this idempotent request are inconsistent with arguments used in previous request(s).")
			}
			out = r.reservation(t)
			return nil, store.ErrNothingChanged
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
			r.s.RunTokens()[in.ClientToken] = t
		}
		out = r.reservation(t)
		return touched, nil
	})
	return out, err
}

func (r Instances) reservation(t aws.RunToken) aws.Reservation {
	out := aws.Reservation{ID: t.Reservation, OwnerID: r.s.Account}
	for _, id := range t.Instances {
		if i := r.s.Data.Instances[id]; i != nil {
			out.Instances = append(out.Instances, i.With(r.s.Data.Attached(id)))
		}
	}
	return out
}

// checkRun checks the parameters and plans the interfaces of one instance.
func (r Instances) checkRun(in *aws.RunInstancesInput, now time.Time) ([]nicPlan, error) {
	if in.ImageID == "" {
		return nil, aws.Refuse("MissingParameter", "The request must contain the parameter ImageId")
	}
	if in.MinCount < 1 || in.MaxCount < in.MinCount {
		return nil, aws.InvalidValue("Value (%d) for parameter maxCount is invalid: minCount is %d", in.MaxCount, in.MinCount)
	}
	specs := in.Interfaces
	if len(specs) == 0 {
		specs = []aws.InterfaceSpec{{SubnetID: in.SubnetID, GroupIDs: in.GroupIDs, PrivateIP: in.PrivateIP, IPv6Count: in.IPv6Count}}
	} else if in.SubnetID != "" || len(in.GroupIDs) > 0 || in.PrivateIP != "" || in.IPv6Count > 0 {
		return nil, aws.Refuse(
			"InvalidParameterCombination",
			"Network interfaces and an instance-level subnet ID, security groups or addresses may not be specified on the same request",
		)
	}
	for _, t := range in.Tags {
		if err := r.s.CheckNewTags(t); err != nil {
			return nil, err
		}
	}
	var plans []nicPlan
	taken := map[netip.Addr]bool{}
	devices := map[int]bool{}
	for _, s := range specs {
		if devices[s.DeviceIndex] {
			return nil, aws.InvalidValue("Each network interface requires a unique device index (%d is repeated).", s.DeviceIndex)
		}
		devices[s.DeviceIndex] = true
		if in.MaxCount > 1 && (s.PrivateIP != "" || len(s.SecondaryIPs)+len(s.IPv6) > 0 || s.NetworkInterfaceID != "") {
			return nil, aws.Refuse("InvalidParameterCombination", "Addresses and existing network interfaces cannot be given for more than one instance")
		}
		p, err := Interfaces(r).planNIC(s, now, taken)
		if err != nil {
			return nil, err
		}
		plans = append(plans, p)
	}
	if !devices[0] {
		return nil, aws.InvalidValue("A primary network interface (device index 0) is required.")
	}
	slices.SortFunc(plans, func(a, b nicPlan) int { return a.spec.DeviceIndex - b.spec.DeviceIndex })
	if v := plans[0].vpc(); slices.ContainsFunc(plans, func(p nicPlan) bool { return p.vpc() != v }) {
		return nil, aws.Refuse("InvalidParameter", "The network interfaces of an instance must be in the same VPC")
	}
	return plans, nil
}

// launch makes the instances. Only the addresses of the subnets can still run out, so that is found
// out before anything is stored.
func (r Instances) launch(in *aws.RunInstancesInput, plans []nicPlan, now time.Time) (aws.RunToken, []string, error) {
	t := aws.RunToken{Reservation: r.s.NewID("r")}
	used := r.s.Used(plans[0].vpc())
	var instances []*aws.Instance
	nics := map[string][]*aws.NetworkInterface{}
	for index := range in.MaxCount {
		i := &aws.Instance{
			ID: r.s.NewID("i"), Account: r.s.Account, ReservationID: t.Reservation, ImageID: in.ImageID,
			InstanceType: in.InstanceType, KeyName: in.KeyName, ClientToken: in.ClientToken, LaunchIndex: index,
			LaunchTime: now.UTC().Truncate(time.Second), Tenancy: "default", State: aws.Pending, Tags: in.Tags["instance"].Clone(),
			Attributes: in.Attributes,
			Visible:    r.s.Visible(now),
		}
		for _, p := range plans {
			n := p.existing
			if n == nil {
				var err error
				if n, err = Interfaces(r).newNIC(p, now, used); err != nil {
					return t, nil, err
				}
				n.Tags = in.Tags["network-interface"].Clone()
			}
			nics[i.ID] = append(nics[i.ID], n)
		}
		i.VPCID, i.SubnetID, i.Zone = nics[i.ID][0].VPCID, nics[i.ID][0].SubnetID, nics[i.ID][0].Zone
		instances = append(instances, i)
	}
	var touched []string
	for _, i := range instances {
		r.s.Data.Instances[i.ID] = i
		t.Instances = append(t.Instances, i.ID)
		touched = append(touched, i.ID)
		for k, n := range nics[i.ID] {
			n.Status = aws.StatusInUse
			n.Attachment = &aws.Attachment{
				ID: r.s.NewID("eni-attach"), InstanceID: i.ID, DeviceIndex: plans[k].spec.DeviceIndex, Status: "attached",
				AttachTime: i.LaunchTime, DeleteOnTermination: plans[k].existing == nil && !plans[k].spec.KeepOnTermination,
			}
			r.s.Data.NICs[n.ID] = n
			touched = append(touched, n.ID)
		}
		r.s.Later(now, r.s.Transition(), i.ID, aws.Pending.String(), aws.Running.String())
	}
	return t, touched, nil
}

// StartInstances starts stopped instances. All or nothing.
func (r Instances) StartInstances(ids []string) ([]aws.StateChange, error) {
	from := []aws.InstanceState{aws.Stopped, aws.Running, aws.Pending}
	return r.power("StartInstances", "started", ids, from, func(i *aws.Instance, now time.Time) {
		if i.State == aws.Stopped {
			i.State, i.TransitionReason = aws.Pending, ""
			r.lendPublicIPs(i)
			r.s.Later(now, r.s.Transition(), i.ID, aws.Pending.String(), aws.Running.String())
		}
	})
}

// StopInstances stops running instances; they keep interfaces, private addresses and groups, and
// give back public addresses that were lent to them. With force the guest is not waited for: the
// stopping state has no length. All or nothing.
func (r Instances) StopInstances(ids []string, force bool) ([]aws.StateChange, error) {
	delay := r.s.Transition()
	if force {
		delay = 0
	}
	from := []aws.InstanceState{aws.Running, aws.Pending, aws.Stopping, aws.Stopped}
	return r.power("StopInstances", "stopped", ids, from, func(i *aws.Instance, now time.Time) {
		if i.State == aws.Running || i.State == aws.Pending {
			i.State, i.TransitionReason = aws.Stopping, userInitiated(now)
			r.takeBackPublicIPs(i)
			r.s.Later(now, delay, i.ID, aws.Stopping.String(), aws.Stopped.String())
		}
	})
}

func userInitiated(now time.Time) string {
	return "User initiated (" + now.UTC().Format("2006-01-02 15:04:05") + " GMT)"
}

func (r Instances) takeBackPublicIPs(i *aws.Instance) {
	for _, n := range r.s.Data.Attached(i.ID) {
		for k := range n.PrivateIPs {
			if n.PrivateIPs[k].AutoPublic {
				n.PrivateIPs[k].Public = netip.Addr{}
			}
		}
	}
}

func (r Instances) lendPublicIPs(i *aws.Instance) {
	for _, n := range r.s.Data.Attached(i.ID) {
		for k := range n.PrivateIPs {
			if n.PrivateIPs[k].AutoPublic {
				n.PrivateIPs[k].Public = r.s.NewPublicIP()
			}
		}
	}
}

// TerminateInstances ends instances. Their interfaces go when the state reaches terminated: deleted
// if they were made with the instance, else detached. The record stays for an hour. All or nothing.
func (r Instances) TerminateInstances(ids []string) ([]aws.StateChange, error) {
	from := []aws.InstanceState{aws.Pending, aws.Running, aws.ShuttingDown, aws.Terminated, aws.Stopping, aws.Stopped}
	return r.power("TerminateInstances", "terminated", ids, from, func(i *aws.Instance, now time.Time) {
		if i.State != aws.Terminated && i.State != aws.ShuttingDown {
			i.State, i.TransitionReason = aws.ShuttingDown, userInitiated(now)
			r.s.Later(now, r.s.Transition(), i.ID, aws.ShuttingDown.String(), aws.Terminated.String())
			r.s.Later(now, r.s.Transition()+keepTerminated, i.ID, aws.Terminated.String(), aws.StateGone)
		}
	})
}

// power turns instances that are all in one of the states of from.
func (r Instances) power(action, verb string, ids []string, from []aws.InstanceState, turn func(*aws.Instance, time.Time)) ([]aws.StateChange, error) {
	var out []aws.StateChange
	err := r.s.Mutate(action, func(now time.Time) ([]string, error) {
		if len(ids) == 0 {
			return nil, aws.Refuse("MissingParameter", "The request must contain the parameter InstanceId")
		}
		var all []*aws.Instance
		for _, id := range ids {
			i, err := r.s.Instance(id, now)
			if err != nil {
				return nil, err
			}
			if !slices.Contains(from, i.State) {
				return nil, aws.Refuse("IncorrectInstanceState", "The instance '%s' is not in a state from which it can be %s.", i.ID, verb)
			}
			if err := i.Protected(verb); err != nil {
				return nil, err
			}
			if !slices.Contains(all, i) {
				all = append(all, i)
			}
		}
		for _, i := range all {
			before := i.State
			turn(i, now)
			out = append(out, aws.StateChange{InstanceID: i.ID, Previous: before, Current: i.State})
		}
		return ids, nil
	})
	return out, err
}

// Instances are the calls that run, change, stop and end instances.
type Instances struct{ s *store.Site }

// InstancesAt returns the calls on a site.
func InstancesAt(s *store.Site) Instances { return Instances{s} }

// Instances is DescribeInstances, reservations flattened: Instance.ReservationID groups them.
func (r Instances) Instances(ids ...string) (out []aws.Instance, err error) {
	r.s.Read(func(now time.Time) {
		attached := map[string][]*aws.NetworkInterface{}
		for _, n := range r.s.Data.NICs {
			if n.Attachment != nil {
				attached[n.Attachment.InstanceID] = append(attached[n.Attachment.InstanceID], n)
			}
		}
		out, err = store.ByID("i", r.s.Data.Instances, ids, func(i *aws.Instance) bool { return store.Seen(i.Visible, now) },
			func(i *aws.Instance) aws.Instance { return i.With(attached[i.ID]) })
	})
	return out, err
}
