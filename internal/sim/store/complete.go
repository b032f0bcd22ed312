package store

import (
	"time"

	"github.com/nephele-io/nephele/internal/sim/aws"
)

// completeVPC gives a VPC its main route table and its default ACL. Their ids depend on the VPC's
// alone.
func (d *holdings) completeVPC(v *aws.VPC, visible time.Time) {
	if d.MainTable(v.ID) == nil {
		t := &aws.RouteTable{
			ID: "rtb-" + aws.ShortHash("main/"+v.ID), Account: v.Account, VPCID: v.ID, Main: "rtbassoc-" + aws.ShortHash("main/"+v.ID),
			Implied: true, Visible: visible,
		}
		d.Tables[t.ID] = t
	}
	if d.DefaultACL(v.ID) == nil {
		a := &aws.NetworkACL{
			ID: "acl-" + aws.ShortHash("default/"+v.ID), Account: v.Account, VPCID: v.ID, Default: true, Implied: true, Visible: visible,
			Entries: aws.OpenEntries(v.HasIPv6()),
		}
		d.ACLs[a.ID] = a
	}
}

// NewGroup makes a group with the default egress rules; the caller stores it.
func (r *Site) NewGroup(vpc *aws.VPC, name, description string, now time.Time) *aws.SecurityGroup {
	g := &aws.SecurityGroup{
		ID: r.NewID("sg"), Account: r.Account, VPCID: vpc.ID, Name: name, Description: description,
		Visible: r.Visible(now),
	}
	for _, p := range aws.Everywhere {
		if p.Addr().Is4() || vpc.HasIPv6() {
			g.Rules = append(g.Rules, aws.SecurityGroupRule{
				ID: r.NewID("sgr"), GroupID: g.ID, Account: g.Account, Egress: true,
				Protocol: aws.AllProtocols, FromPort: -1, ToPort: -1, CIDR: p,
			})
		}
	}
	return g
}
