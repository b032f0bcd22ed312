package ec2

import (
	"github.com/nephele-io/nephele/internal/sim/aws"
	"github.com/nephele-io/nephele/internal/sim/ec2/codec"
	"github.com/nephele-io/nephele/internal/sim/ec2/wire"
)

// describeInstanceStatus reports running instances, or of all if that is asked for, that they are
// well: what clients wait for after they have started some.
func describeInstanceStatus(r *request) ([]wire.Element, error) {
	rule := pageRule{min: 5, max: 1000, whole: 1000, ids: "InstanceId", idsName: "instancesSet"}
	ids := r.params.Strings("InstanceId")
	if len(ids) > 0 {
		rule.whole = 0
	}
	if _, err := pageSize(r, rule); err != nil {
		return nil, err
	}
	all, _, err := r.params.Bool("IncludeAllInstances")
	if err != nil {
		return nil, err
	}
	instances, err := r.region.Instances(ids...)
	if err != nil {
		return nil, err
	}
	var shown []aws.Instance
	for _, i := range instances {
		if all || i.State == aws.Running {
			shown = append(shown, i)
		}
	}
	known := codec.InstanceAttributes()
	page, err := list(r, listing[aws.Instance]{
		items: shown,
		key:   func(i aws.Instance) string { return i.ID },
		known: wire.Attributes[aws.Instance]{
			"availability-zone": known["availability-zone"], "instance-state-name": known["instance-state-name"], "instance-state-code": known["instance-state-code"],
		},
		tags: func(i aws.Instance) map[string]string { return i.Tags },
		page: rule,
	})
	if err != nil {
		return nil, err
	}
	set := wire.List("instanceStatusSet", page.Items, func(i aws.Instance) []wire.Element {
		health := "ok"
		if i.State != aws.Running {
			health = "not-applicable"
		}
		return []wire.Element{
			wire.Text("instanceId", i.ID),
			wire.Text("availabilityZone", i.Zone),
			codec.InstanceState("instanceState", i.State),
			wire.Node("systemStatus", wire.Text("status", health)),
			wire.Node("instanceStatus", wire.Text("status", health)),
		}
	})
	return []wire.Element{set, wire.Text("nextToken", page.Next)}, nil
}
