package ec2

import (
	"github.com/nephele-io/nephele/internal/sim/aws"
	"github.com/nephele-io/nephele/internal/sim/ec2/codec"
	"github.com/nephele-io/nephele/internal/sim/ec2/wire"
)

func describeInstances(r *request) ([]wire.Element, error) {
	// Instances named by id are all returned; otherwise a page never holds more than 1000.
	rule := pageRule{min: 5, max: 1000, whole: 1000, ids: "InstanceId", idsName: "instancesSet"}
	ids := r.params.Strings("InstanceId")
	if len(ids) > 0 {
		rule.whole = 0
	}
	if _, err := pageSize(r, rule); err != nil {
		return nil, err
	}
	instances, err := r.region.Instances(ids...)
	if err != nil {
		return nil, err
	}
	if _, _, err := r.params.Bool("IncludeManagedResources"); err != nil {
		return nil, err
	}
	region := r.region.Name()
	page, err := list(r, listing[aws.Instance]{
		items: instances,
		key:   func(i aws.Instance) string { return i.ID },
		known: codec.InstanceAttributes(),
		tags:  func(i aws.Instance) map[string]string { return i.Tags },
		page:  rule,
	})
	if err != nil {
		return nil, err
	}
	// Instances of one launch come back as one reservation, as far as they are on the same page.
	var order []string
	byReservation := map[string][]aws.Instance{}
	for _, i := range page.Items {
		if byReservation[i.ReservationID] == nil {
			order = append(order, i.ReservationID)
		}
		byReservation[i.ReservationID] = append(byReservation[i.ReservationID], i)
	}
	set := wire.List("reservationSet", order, func(id string) []wire.Element {
		members := byReservation[id]
		return codec.ReservationBody(region, aws.Reservation{ID: id, OwnerID: members[0].Account, Instances: members})
	})
	return []wire.Element{set, wire.Text("nextToken", page.Next)}, nil
}

func runInstances(r *request) ([]wire.Element, error) {
	if err := launchWith(r); err != nil {
		return nil, err
	}
	in := aws.RunInstancesInput{
		ImageID:      r.params.String("ImageId"),
		InstanceType: r.params.String("InstanceType"),
		KeyName:      r.params.String("KeyName"),
		SubnetID:     r.params.String("SubnetId"),
		GroupIDs:     r.params.Strings("SecurityGroupId"),
		PrivateIP:    r.params.String("PrivateIpAddress"),
		ClientToken:  r.params.String("ClientToken"),
	}
	var err error
	if in.MinCount, err = needCount(r, "MinCount"); err != nil {
		return nil, err
	}
	if in.MaxCount, err = needCount(r, "MaxCount"); err != nil {
		return nil, err
	}
	if in.IPv6Count, _, err = r.params.Int("Ipv6AddressCount"); err != nil {
		return nil, err
	}
	if in.Interfaces, err = codec.InterfaceSpecs(r.params); err != nil {
		return nil, err
	}
	if in.Attributes, err = launchAttributes(r); err != nil {
		return nil, err
	}
	if in.Tags, err = codec.TagSpecs(r.params, "instance", "network-interface", "volume"); err != nil {
		return nil, err
	}
	names, err := groupsByName(r, r.params.Strings("SecurityGroup"))
	if err != nil {
		return nil, err
	}
	for _, g := range names {
		in.GroupIDs = append(in.GroupIDs, g.ID)
	}
	res, err := r.region.InstanceCalls().RunInstances(in)
	if err != nil {
		return nil, err
	}
	return codec.ReservationBody(r.region.Name(), res), nil
}

// launchAttributes reads the attributes that an instance can be launched with.
func launchAttributes(r *request) (aws.InstanceAttributes, error) {
	a := aws.InstanceAttributes{UserData: r.params.String("UserData"), OnShutdown: r.params.String("InstanceInitiatedShutdownBehavior")}
	for name, on := range map[string]*bool{"DisableApiTermination": &a.KeepAlive, "DisableApiStop": &a.KeepRunning, "EbsOptimized": &a.EBSOptimized} {
		v, _, err := r.params.Bool(name)
		if err != nil {
			return a, err
		}
		*on = v
	}
	return a, nil
}

func needCount(r *request, key string) (int, error) {
	n, ok, err := r.params.Int(key)
	if err == nil && !ok {
		err = codec.Missing(key)
	}
	return n, err
}

func startInstances(r *request) ([]wire.Element, error) {
	return changeState(r, r.region.InstanceCalls().StartInstances)
}

func stopInstances(r *request) ([]wire.Element, error) {
	force, _, err := r.params.Bool("Force")
	if err != nil {
		return nil, err
	}
	return changeState(r, func(ids []string) ([]aws.StateChange, error) {
		return r.region.InstanceCalls().StopInstances(ids, force)
	})
}

func terminateInstances(r *request) ([]wire.Element, error) {
	return changeState(r, r.region.InstanceCalls().TerminateInstances)
}

func changeState(r *request, change func([]string) ([]aws.StateChange, error)) ([]wire.Element, error) {
	ids, err := needList(r, "InstanceId")
	if err != nil {
		return nil, err
	}
	changes, err := change(ids)
	if err != nil {
		return nil, err
	}
	return []wire.Element{wire.List("instancesSet", changes, func(c aws.StateChange) []wire.Element {
		return []wire.Element{
			wire.Text("instanceId", c.InstanceID),
			codec.InstanceState("currentState", c.Current),
			codec.InstanceState("previousState", c.Previous),
		}
	})}, nil
}

func describeNetworkInterfaces(r *request) ([]wire.Element, error) {
	rule := pageRule{min: 5, max: 1000, ids: "NetworkInterfaceId", idsName: "networkInterfaceIdSet"}
	if _, err := pageSize(r, rule); err != nil {
		return nil, err
	}
	nics, err := r.region.NetworkInterfaces(r.params.Strings("NetworkInterfaceId")...)
	if err != nil {
		return nil, err
	}
	if _, _, err := r.params.Bool("IncludeManagedResources"); err != nil {
		return nil, err
	}
	region := r.region.Name()
	page, err := list(r, listing[aws.NetworkInterface]{
		items: nics,
		key:   func(n aws.NetworkInterface) string { return n.ID },
		known: codec.InterfaceAttributes(),
		tags:  func(n aws.NetworkInterface) map[string]string { return n.Tags },
		page:  rule,
	})
	if err != nil {
		return nil, err
	}
	return pageOf("networkInterfaceSet", page, func(n aws.NetworkInterface) []wire.Element {
		return codec.InterfaceBody(region, n)
	}), nil
}
