package codec

import (
	"net/url"

	"github.com/nephele-io/nephele/internal/sim/aws"
	"github.com/nephele-io/nephele/internal/sim/ec2/wire"
)

// TemplateBody is a template as DescribeLaunchTemplates shows it.
func TemplateBody(t aws.LaunchTemplate) []wire.Element {
	return []wire.Element{
		wire.Text("launchTemplateId", t.ID), wire.Text("launchTemplateName", t.Name), wire.Time("createTime", t.Created),
		wire.Text("createdBy", t.CreatedBy), wire.Int("defaultVersionNumber", t.DefaultVersion), wire.Int("latestVersionNumber", t.Latest()),
		tagSet(t.Tags),
	}
}

// VersionBody is a version of a template as DescribeLaunchTemplateVersions shows it.
func VersionBody(t aws.LaunchTemplate, v aws.TemplateVersion) []wire.Element {
	return []wire.Element{
		wire.Text("launchTemplateId", t.ID), wire.Text("launchTemplateName", t.Name), wire.Int("versionNumber", v.Number),
		wire.Text("versionDescription", v.Description), wire.Time("createTime", v.Created), wire.Text("createdBy", t.CreatedBy),
		wire.Bool("defaultVersion", v.Number == t.DefaultVersion), wire.Node("launchTemplateData", templateDataBody(v.Data)...),
	}
}

// templateDataBody writes what of a template the simulator knows.
func templateDataBody(data map[string]string) []wire.Element {
	p := ParamsOf(data)
	text := func(v string) wire.Element { return wire.Element{Name: "item", Text: v} }
	texts := func(name string, values []string) wire.Element {
		out := wire.Element{Name: name}
		for _, v := range values {
			out.Children = append(out.Children, text(v))
		}
		if len(values) == 0 {
			return wire.Element{}
		}
		return out
	}
	out := []wire.Element{
		wire.Text("imageId", p.String("ImageId")), wire.Text("instanceType", p.String("InstanceType")), wire.Text("keyName", p.String("KeyName")),
		wire.Text("userData", p.String("UserData")), texts("securityGroupIdSet", p.Strings("SecurityGroupId")),
		texts("securityGroupSet", p.Strings("SecurityGroup")),
	}
	if nics := p.Elements("NetworkInterface"); len(nics) > 0 {
		out = append(out, wire.List("networkInterfaceSet", nics, func(e wire.Params) []wire.Element {
			groups := wire.Element{Name: "groupSet"}
			for _, g := range e.Strings("SecurityGroupId") {
				groups.Children = append(groups.Children, wire.Element{Name: "groupId", Text: g})
			}
			return []wire.Element{
				wire.Text("deviceIndex", e.String("DeviceIndex")), wire.Text("subnetId", e.String("SubnetId")),
				wire.Text("associatePublicIpAddress", e.String("AssociatePublicIpAddress")), wire.Text("networkInterfaceId", e.String("NetworkInterfaceId")),
				groups,
			}
		}))
	}
	if specs := p.Elements("TagSpecification"); len(specs) > 0 {
		out = append(out, wire.List("tagSpecificationSet", specs, func(e wire.Params) []wire.Element {
			return []wire.Element{wire.Text("resourceType", e.String("ResourceType")), wire.List("tagSet", e.Elements("Tag"), func(t wire.Params) []wire.Element {
				return []wire.Element{{Name: "key", Text: t.String("Key")}, {Name: "value", Text: t.String("Value")}}
			})}
		}))
	}
	return out
}

// ParamsOf are the parameters of RunInstances that the data of a template stands for.
func ParamsOf(data map[string]string) wire.Params {
	values := url.Values{}
	for k, v := range data {
		values.Set(k, v)
	}
	return wire.NewParams(values)
}
