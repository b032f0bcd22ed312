package estate

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/nephele-io/nephele/internal/sim/world"
)

// story is the example of docs/simulator.md.
const story = `
accounts:
- id: "111122223333"
  alias: shop
  credentials:
  - accessKeyId: AKIASHOPEXAMPLE00000
    secret: shop-secret-of-any-length
  roles:
  - name: nephele
    trusted: ["444455556666"]
    externalId: four-eyes
  quotas: {rulesPerGroup: 40}
  regions:
  - name: eu-west-1
    prefixLists:
    - name: offices
      maxEntries: 5
      entries: [198.51.100.0/24 Berlin, 203.0.113.7 Oslo]
    vpcs:
    - name: shop
      cidrs: [10.1.0.0/16, "2001:db8:1::/56"]
      subnets:
      - {name: front, cidr: 10.1.1.0/24, ipv6: "2001:db8:1:1::/64", publicIPs: true}
      - {name: back, cidr: 10.1.2.0/24, zone: eu-west-1b}
      groups:
      - name: web
        rules:
        - tcp 80,443 from any -- the world
        - tcp 22 from list:offices
        - icmp 8 from 10.0.0.0/8
      - name: db
        egress: none
        rules:
        - tcp 5432 from web, ops/bastion
      vms:
      - {name: web-1, subnet: front, ip: 10.1.1.10, ipv6: auto, public: auto, groups: [web], tags: {app: shop}}
      - {name: db-1, subnet: back, groups: [db], state: stopped}
      - name: router
        nics:
        - {subnet: front, ip: [10.1.1.20, 10.1.1.21], groups: [web]}
        - {subnet: back, groups: [db]}
      nics:
      - {name: balancer, subnet: front, managed: true, groups: [web]}
    - name: ops
      cidrs: [10.2.0.0/16]
      groups:
      - name: bastion
        rules: [tcp 22 from list:offices, all to any]
      vms:
      - {name: jump, groups: [bastion]}
- id: "444455556666"
  regions: [{name: eu-west-1}]
peerings:
- between: [shop, ops]
`

func loadYAML(t *testing.T, text string) world.State {
	t.Helper()
	s, _, err := LoadFS(fstest.MapFS{"e.yaml": {Data: []byte(text)}}, "e.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestTry(t *testing.T) {
	for _, p := range []string{"data/hybrid-cloud", "../../../testdata/aws/web-tier", "../../../testdata/aws/collector-sg1.json"} {
		_, r, err := Load(p)
		t.Log(r, err)
	}
	s := loadYAML(t, story)
	for _, r := range s.Regions {
		for _, g := range r.SecurityGroups {
			t.Log(g.ID, g.Name, g.VPCID)
			for _, x := range g.Rules {
				t.Log("  ", x.ID, x.String(), x.Description)
			}
		}
		for _, n := range r.NetworkInterfaces {
			t.Log(n)
		}
	}
	_ = strings.ToLower
}
