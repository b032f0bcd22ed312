package nativeapi

import (
	"maps"
	"slices"
	"strings"

	"github.com/nephele-io/nephele/internal/sim/aws"
	"github.com/nephele-io/nephele/internal/sim/iam"
	"github.com/nephele-io/nephele/internal/sim/native"
)

func fileActions() map[string]Action {
	return map[string]Action{
		"DescribeFileSystems":               describeFileSystems,
		"DescribeMountTargets":              describeMountTargets,
		"DescribeMountTargetSecurityGroups": describeMountTargetGroups,
		"ModifyMountTargetSecurityGroups":   modifyMountTargetGroups,
		"ListTagsForResource":               fileTags,
		"TagResource":                       tagFiles,
		"UntagResource":                     untagFiles,
	}
}

// filePaging: "MaxItems: ... The response is paginated at 100 per page".
var filePaging = paging{"Marker", "MaxItems", 1, 1 << 20, 100}

func badRequest(format string, args ...any) error { return refuse("BadRequest", format, args...) }

// fileRefusal gives the world's refusals the names of EFS.
func fileRefusal(k native.Kind, err error) error {
	names := map[string]string{
		"ServiceNotFound": "FileSystemNotFound/404", "ServiceBusy": "IncorrectMountTargetState/409", "ServiceInvalid": "BadRequest",
		"DifferentNetworks": "SecurityGroupNotFound", "TagInvalid": "BadRequest",
		"InvalidGroup.NotFound": "SecurityGroupNotFound", "InvalidGroupId.Malformed": "SecurityGroupNotFound",
		"SecurityGroupsPerInterfaceLimitExceeded": "SecurityGroupLimitExceeded",
	}
	if k == native.MountTarget {
		names["ServiceNotFound"] = "MountTargetNotFound/404"
	}
	return translate(err, names)
}

// filePermissions: calls about mount targets are on their file system. Calls about its groups need
// a right of EC2 on the interface as well ("This operation requires permissions for the following
// actions").
func (c *Call) filePermissions() []iam.Request {
	services := c.Region.Services()
	fs := strings.TrimPrefix(c.Params.String("FileSystemId"), native.ARN(native.FileSystem, c.Region.Name(), c.Region.Account(), ""))
	if id := c.Params.String("ResourceId"); id != "" {
		var body struct{ Tags []aws.Tag }
		sets := map[string]string(nil)
		// A body that cannot be read is refused by the action.
		if c.decode(&body) == nil && len(body.Tags) > 0 {
			sets = map[string]string{}
			for _, t := range body.Tags {
				sets[t.Key] = t.Value
			}
		}
		if c.Action == "UntagResource" {
			sets = map[string]string{}
			for _, k := range c.tagKeys() {
				sets[k] = ""
			}
		}
		return []iam.Request{c.askFor(native.FileSystem, id[strings.LastIndex(id, "/")+1:], sets)}
	}
	id := c.Params.String("MountTargetId")
	if id == "" {
		return []iam.Request{c.askFor(native.FileSystem, fs, nil)}
	}
	// A target that is not there belongs to no file system.
	target, _ := services.Get(native.Ref{Kind: native.MountTarget, Name: id})
	out := []iam.Request{c.askFor(native.FileSystem, target.Parent, nil)}
	extra := map[string]string{
		"DescribeMountTargetSecurityGroups": "ec2:DescribeNetworkInterfaceAttribute", "ModifyMountTargetSecurityGroups": "ec2:ModifyNetworkInterfaceAttribute",
	}[c.Action]
	for _, nic := range target.NICs() {
		if extra != "" {
			asked := c.ask(aws.ARN(c.Region.Name(), c.Region.Account(), nic), nil, nil)
			asked.Action = extra
			out = append(out, asked)
		}
	}
	return out
}

type tagJSON struct {
	Key   string `json:"Key"`
	Value string `json:"Value"`
}

func tagsJSON(tags map[string]string) []tagJSON {
	out := []tagJSON{}
	for _, k := range slices.Sorted(maps.Keys(tags)) {
		out = append(out, tagJSON{k, tags[k]})
	}
	return out
}

func describeFileSystems(c *Call) (Answer, error) {
	all, err := chosen(c, native.FileSystem, c.Params.String("FileSystemId"), fileRefusal)
	if err != nil {
		return Answer{}, err
	}
	p, err := page(c, all, func(s native.Service) string { return s.Name }, filePaging, badRequest)
	if err != nil {
		return Answer{}, err
	}
	targets := c.Region.Services().List(native.MountTarget)
	rows := []map[string]any{}
	for _, s := range p.Items {
		rows = append(rows, map[string]any{
			"FileSystemId": s.Name, "FileSystemArn": s.ARN(), "OwnerId": s.Account, "LifeCycleState": "available", "Name": s.Tags["Name"],
			"CreationToken": s.Name, "CreationTime": float64(s.Created.Unix()), "NumberOfMountTargets": len(native.MembersOf(s.Ref(), targets)),
			"PerformanceMode": "generalPurpose", "SizeInBytes": map[string]any{"Value": 6144}, "Tags": tagsJSON(s.Tags),
		})
	}
	return pageJSON("FileSystems", rows, p.Next), nil
}

// pageJSON is a page of a REST answer; there is no next marker on the last one.
func pageJSON(name string, rows []map[string]any, next string) Answer {
	out := map[string]any{name: rows}
	if next != "" {
		out["NextMarker"] = next
	}
	return Answer{JSON: out}
}

func describeMountTargets(c *Call) (Answer, error) {
	fs, id := c.Params.String("FileSystemId"), c.Params.String("MountTargetId")
	if (fs == "") == (id == "") {
		return Answer{}, badRequest("Must specify exactly one of MountTargetId, FileSystemId or AccessPointId.")
	}
	services := c.Region.Services()
	all, err := chosen(c, native.MountTarget, id, fileRefusal)
	if fs != "" {
		if _, err = services.Get(native.Ref{Kind: native.FileSystem, Name: fs}); err == nil {
			all = native.MembersOf(native.Ref{Kind: native.FileSystem, Name: fs}, all)
		}
		err = fileRefusal(native.FileSystem, err)
	}
	if err != nil {
		return Answer{}, err
	}
	p, err := page(c, all, func(s native.Service) string { return s.Name }, filePaging, badRequest)
	if err != nil {
		return Answer{}, err
	}
	zones, err := c.zones()
	if err != nil {
		return Answer{}, err
	}
	nics, err := c.interfaces()
	if err != nil {
		return Answer{}, err
	}
	rows := []map[string]any{}
	for _, s := range p.Items {
		row := map[string]any{"MountTargetId": s.Name, "FileSystemId": s.Parent, "OwnerId": s.Account, "LifeCycleState": "available", "VpcId": s.VPCID}
		if c.busy(s) {
			row["LifeCycleState"] = "updating"
		}
		for _, n := range s.Nodes {
			row["SubnetId"], row["NetworkInterfaceId"] = n.SubnetID, n.NIC
			row["AvailabilityZoneName"], row["AvailabilityZoneId"] = zones[n.SubnetID].Name, zones[n.SubnetID].ID
			if nic := nics[n.NIC]; nic.PrimaryIP().Addr.IsValid() {
				row["IpAddress"] = nic.PrimaryIP().Addr.String()
			}
		}
		rows = append(rows, row)
	}
	return pageJSON("MountTargets", rows, p.Next), nil
}

func describeMountTargetGroups(c *Call) (Answer, error) {
	s, err := c.Region.Services().Get(native.Ref{Kind: native.MountTarget, Name: c.Params.String("MountTargetId")})
	return Answer{JSON: map[string]any{"SecurityGroups": s.Groups}}, fileRefusal(native.MountTarget, err)
}

func modifyMountTargetGroups(c *Call) (Answer, error) {
	var body struct{ SecurityGroups []string }
	if err := c.decode(&body); err != nil {
		return Answer{}, err
	}
	ref := native.Ref{Kind: native.MountTarget, Name: c.Params.String("MountTargetId")}
	_, err := c.Region.Services().SetGroups(c.Action, ref, body.SecurityGroups)
	return Answer{}, fileRefusal(native.MountTarget, err)
}

func (c *Call) files() native.Ref {
	id := c.Params.String("ResourceId")
	return native.Ref{Kind: native.FileSystem, Name: id[strings.LastIndex(id, "/")+1:]}
}

func fileTags(c *Call) (Answer, error) {
	s, err := c.Region.Services().Get(c.files())
	return Answer{JSON: map[string]any{"Tags": tagsJSON(s.Tags)}}, fileRefusal(native.FileSystem, err)
}

func tagFiles(c *Call) (Answer, error) {
	var body struct{ Tags []tagJSON }
	if err := c.decode(&body); err != nil {
		return Answer{}, err
	}
	set := map[string]string{}
	for _, t := range body.Tags {
		set[t.Key] = t.Value
	}
	return Answer{JSON: struct{}{}}, fileRefusal(native.FileSystem, c.Region.Services().SetTags(c.Action, c.files(), set, nil))
}

func untagFiles(c *Call) (Answer, error) {
	return Answer{JSON: struct{}{}}, fileRefusal(native.FileSystem, c.Region.Services().SetTags(c.Action, c.files(), nil, c.tagKeys()))
}
