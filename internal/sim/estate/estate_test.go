package estate

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/nephele-io/nephele/internal/sim/aws"
	"github.com/nephele-io/nephele/internal/sim/aws/packet"
	"github.com/nephele-io/nephele/internal/sim/estate/source"
	"github.com/nephele-io/nephele/internal/sim/iam"
	"github.com/nephele-io/nephele/internal/sim/world"
)

// documented returns the example of docs/simulator.md, so that it stays true.
func documented(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../../docs/examples/estate/estate.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func loadYAML(t *testing.T, text string) aws.State {
	t.Helper()
	s, _, err := LoadFS(fstest.MapFS{"e.yaml": {Data: []byte(text)}}, "e.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func mustLoad(t *testing.T, name string) (aws.State, source.Report) {
	t.Helper()
	s, r, err := Load(name)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := world.New(s, world.Options{}); err != nil {
		t.Fatal(err)
	}
	again, r2, err := Load(name)
	if err != nil || !reflect.DeepEqual(s, again) || !reflect.DeepEqual(r, r2) {
		t.Fatalf("loading %s twice gives different results (%v)", name, err)
	}
	return s, r
}

// counts are numbers of VPCs, subnets, groups, rules, interfaces and instances.
func counts(s aws.State) [6]int {
	var n [6]int
	for _, r := range s.Regions {
		n[0] += len(r.VPCs)
		n[1] += len(r.Subnets)
		n[2] += len(r.SecurityGroups)
		for _, g := range r.SecurityGroups {
			n[3] += len(g.Rules)
		}
		n[4] += len(r.NetworkInterfaces)
		n[5] += len(r.Instances)
	}
	return n
}

func TestRealAccounts(t *testing.T) {
	for _, c := range []struct {
		path, account, region, format string
		counts                        [6]int
		warnings                      []string // in order
	}{
		{"data/hybrid-cloud", "118292266645", "us-west-2", "describe answers", [6]int{4, 10, 12, 45, 9, 4}, []string{
			`sg-3dfb3140: VPC vpc-b390fad5 has a group named "default" already, sg-55510831; this one is named "default (2)"`,
			"sg-55510831: refers to group sg-cf3f86b3, which is not in the dump; the rule is kept as a stale one and matches nothing",
			"vpc-f8fad69d: has no default group in the dump; one was made up",
			"10 objects say that they belong to account 028403472736; taken as of 118292266645",
			"4 objects say that they belong to account 111234; taken as of 118292266645",
		}},
		{"../../../testdata/aws/web-tier", "123456789012", "us-east-1", "describe answers", [6]int{1, 4, 8, 19, 4, 3}, []string{
			"i-00000000000000001: its interface eni-00000000 has the id of another one; it is given the id eni-72e3fa47dfda9f08d",
			"i-00000000000000002: its interface eni-00000000 has the id of another one; it is given the id eni-daeb0b4256284c108",
			"sg-00000002: block 2.2.2.2/28 has host bits set; taken as 2.2.2.0/28",
			"vpce-00000000000000002: none of its interfaces is in the dump; left out",
			"eni-00000001: address 172.31.48.168 is not in its subnet subnet-00000001 (10.0.0.0/24); it is kept",
			"1 objects say that they belong to account 653711331788; taken as of 123456789012",
		}},
		{"../../../testdata/aws/collector-sg1.json", "000000000025", "eu-north-1", "collector dump", [6]int{2, 7, 6, 13, 5, 17}, []string{
			"OwnerId:25: is no account id; taken as 000000000025",
			`GroupId:77: is called "GroupName:78" but described as the default group; it is named default`,
			`GroupId:80: is called "GroupName:78" but described as the default group; it is named default`,
			"17 instance ids are no wire ids", "2 internet-gateway ids", "2 network-acl ids", "5 network-interface ids", "6 security-group ids", "7 subnet ids", "2 vpc ids",
		}},
	} {
		t.Run(c.format+" "+c.region, func(t *testing.T) {
			s, r := mustLoad(t, c.path)
			if got := counts(s); got != c.counts {
				t.Errorf("VPCs, subnets, groups, rules, interfaces, instances: %v, want %v", got, c.counts)
			}
			if s.Accounts[0].ID != c.account || s.Regions[0].Name != c.region || r.Format != c.format {
				t.Errorf("account %s in %s as %s", s.Accounts[0].ID, s.Regions[0].Name, r.Format)
			}
			if s.Credentials[0].AccessKeyID != DefaultAccessKeyID || s.Credentials[0].Account != c.account {
				t.Errorf("credentials %+v", s.Credentials)
			}
			if len(r.Warnings) != len(c.warnings) {
				t.Fatalf("report:\n%s", r)
			}
			for i, w := range r.Warnings {
				if !strings.Contains(w.String(), c.warnings[i]) {
					t.Errorf("warning %d: %s\nwant %s", i, w, c.warnings[i])
				}
			}
		})
	}
}

func TestEmbeddedEstate(t *testing.T) {
	s, _, err := HybridCloud()
	if err != nil {
		t.Fatal(err)
	}
	fromDisk, _ := mustLoad(t, "data/hybrid-cloud")
	if !reflect.DeepEqual(s, fromDisk) {
		t.Error("the embedded estate differs from the one on disk")
	}
	r := s.Regions[0]
	i := slices.IndexFunc(r.Instances, func(x aws.Instance) bool { return x.Tags["Name"] == "core_01" })
	if i < 0 || r.Instances[i].State != aws.Stopped || r.Instances[i].SubnetID != "subnet-1641fa70" {
		t.Fatalf("core_01: %+v", r.Instances[i])
	}
	n := slices.IndexFunc(r.NetworkInterfaces, func(x aws.NetworkInterface) bool { return x.ID == "eni-297b5c07" })
	if got := r.NetworkInterfaces[n]; got.Attachment.DeviceIndex != 1 || got.Tags["Name"] != "core_01-eth1" || got.Groups[0].Name != "Arista Demo" {
		t.Errorf("eni-297b5c07: %+v", got)
	}
}

func TestDocumentedEstate(t *testing.T) {
	s := loadYAML(t, documented(t))
	w, err := world.New(s, world.Options{})
	if err != nil {
		t.Fatal(err)
	}
	r, err := w.Region("111122223333", "eu-west-1")
	if err != nil {
		t.Fatal(err)
	}
	instances, err := r.Instances()
	if err != nil {
		t.Fatal(err)
	}
	nic := map[string]packet.End{}
	for _, i := range instances {
		nic[i.Tags["Name"]] = packet.End{NIC: i.NetworkInterfaces[0].ID}
		if i.Tags["Name"] == "router" && (len(i.NetworkInterfaces) != 2 || len(i.NetworkInterfaces[0].PrivateIPs) != 2) {
			t.Errorf("router: %+v", i)
		}
	}
	office, stranger := packet.End{Addr: netip.MustParseAddr("203.0.113.7")}, packet.End{Addr: netip.MustParseAddr("8.8.8.8")}
	for _, c := range []struct {
		from, to packet.End
		port     int
		want     bool
	}{
		{stranger, nic["web-1"], 80, true}, {stranger, nic["web-1"], 443, true}, {stranger, nic["web-1"], 22, false},
		{office, nic["web-1"], 22, true}, {nic["web-1"], nic["db-1"], 5432, true}, {nic["web-1"], nic["db-1"], 5433, false},
		{nic["jump"], nic["db-1"], 5432, true}, {nic["db-1"], stranger, 443, false}, {nic["jump"], stranger, 443, true},
		{stranger, nic["db-1"], 5432, false}, {office, nic["jump"], 22, true},
	} {
		flow := packet.Flow{Src: c.from, Dst: c.to, Protocol: 6, Port: c.port}
		v, err := w.Allowed(flow)
		passes, also := w.Passes(flow)
		if err != nil || also != nil || v.Allowed != c.want || passes != c.want {
			t.Errorf("%s: %s (%v), passes: %t (%v), want %t", flow, v.Reason, err, passes, also, c.want)
		}
	}
	if q := w.Quotas("111122223333"); q.RulesPerGroup != 40 || q.GroupsPerInterface != 5 {
		t.Errorf("quotas %+v", q)
	}
	if _, err := w.AssumeRole(s.Credentials[0], aws.AssumeRoleInput{RoleARN: "arn:aws:iam::111122223333:role/nephele", SessionName: "me", ExternalID: "four-eyes"}); err == nil {
		t.Error("the role trusts its own account")
	}
}

func TestYAMLErrors(t *testing.T) {
	head := `accounts: [{id: "111122223333", regions: [{name: eu-west-1, vpcs: [{name: v, cidrs: [10.0.0.0/16], `
	tail := `}]}]}]`
	for name, c := range map[string]struct{ text, want string }{
		"unknown field":     {`accounts: [{id: "111122223333", regiones: []}]`, `unknown field "regiones"`},
		"not YAML":          {"accounts: [", "e.yaml: not an estate: "},
		"nothing":           {"{}", "e.yaml: accounts: expected at least one account"},
		"account number":    {`accounts: [{id: "12"}]`, `e.yaml: accounts[0]: id: expected 12 digits in quotes, found "12"`},
		"no region name":    {`accounts: [{id: "111122223333", regions: [{}]}]`, "accounts[0].regions[0]: name: expected a region"},
		"bad block":         {head + `subnets: [{cidr: 10.0.0.0/33}]` + tail, `vpcs[0].subnets[0]: cidr: expected an address block such as 10.0.0.0/16, found "10.0.0.0/33"`},
		"outside the VPC":   {head + `subnets: [{cidr: 10.9.0.0/24}]` + tail, "subnets[0]: 10.9.0.0/24 is not inside a block of the VPC"},
		"rule shape":        {head + `groups: [{name: g, rules: [tcp eighty]}]` + tail, `groups[0].rules[0]: "tcp eighty": expected PROTOCOL [PORTS] from|to PEERS`},
		"rule port":         {head + `groups: [{name: g, rules: [tcp http from any]}]` + tail, "expected ports such as 80, 8000-8080 or 80,443"},
		"rule range":        {head + `groups: [{name: g, rules: [tcp 90-80 from any]}]` + tail, "Invalid TCP/UDP port range (90:80)"},
		"rule protocol":     {head + `groups: [{name: g, rules: [gopher from any]}]` + tail, "Unknown protocol"},
		"rule peer":         {head + `groups: [{name: g, rules: [tcp 80 from nobody]}]` + tail, "expected a block, any, self, list:NAME or a group of the VPC"},
		"rule host bits":    {head + `groups: [{name: g, rules: [tcp 80 from 10.0.0.1/8]}]` + tail, "without host bits such as 10.0.0.0/8"},
		"rule list":         {head + `groups: [{name: g, rules: ["tcp 80 from list:x"]}]` + tail, `no prefix list named "x"`},
		"rule twice":        {head + `groups: [{name: g, rules: [tcp 80 from any, tcp 80 from any4]}]` + tail, "has the rule"},
		"rule other VPC":    {head + `groups: [{name: g, rules: [tcp 80 from w/g]}]` + tail, `there is no VPC named "w"`},
		"group of a VM":     {head + `vms: [{name: a, groups: [nope]}]` + tail, `vms[0].nics[0]: groups: the VPC has no group named "nope"`},
		"subnet of a VM":    {head + `vms: [{name: a, subnet: nope}]` + tail, `the VPC has no subnet named "nope"`},
		"address of a VM":   {head + `vms: [{name: a, ip: 192.168.0.1}]` + tail, "ip: expected an address of a subnet of the VPC"},
		"state of a VM":     {head + `vms: [{name: a, state: asleep}]` + tail, `state: expected running, stopped, terminated, ..., found "asleep"`},
		"two ways of NICs":  {head + `vms: [{name: a, ip: 10.0.0.5, nics: [{}]}]` + tail, "expected either nics or subnet"},
		"one-sided peering": {head + tail + "\npeerings: [{between: [v]}]", "peerings[0]: between: expected two VPCs, found 1"},
		"repeated VM":       {head + `vms: [{name: a}, {name: a}]` + tail, "appears twice"},
		"quota product":     {`accounts: [{id: "111122223333", quotas: {rulesPerGroup: 300}}]`, "at most 1000 can be granted"},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := LoadFS(fstest.MapFS{"e.yaml": {Data: []byte(c.text)}}, "e.yaml")
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
		})
	}
}

func TestDumpErrors(t *testing.T) {
	vpcs := `{"Vpcs": [{"VpcId": "vpc-12345678", "CidrBlock": "10.0.0.0/16", "OwnerId": "123456789012"}]}`
	for name, c := range map[string]struct {
		files map[string]string
		load  string
		want  string
	}{
		"no such folder": {nil, "nowhere", "nowhere"},
		"empty folder":   {map[string]string{"x/README": ""}, "x", "x: no description of an account here: expected region folders"},
		"not JSON": {map[string]string{"d/us-west-2/Vpcs.json": "{\n  oops\n}"}, "d",
			"d/us-west-2/Vpcs.json: line 2: not JSON"},
		"other content": {map[string]string{"d/us-west-2/Vpcs.json": `{"Subnets": []}`}, "d",
			`d/us-west-2/Vpcs.json: not a describe answer: expected an object with the member "Vpcs", found Subnets`},
		"a list": {map[string]string{"d/us-west-2/Vpcs.json": `[]`}, "d", "Vpcs.json: a list, as --query of aws makes: expected the whole answer, an object"},
		"wrong type": {map[string]string{"d/us-west-2/Vpcs.json": `{"Vpcs": [{"VpcId": 7}]}`}, "d",
			"Vpcs.json: line 1: Vpcs.VpcId: expected a string, found a number"},
		"no id":     {map[string]string{"d/us-west-2/Vpcs.json": `{"Vpcs": [{"CidrBlock": "10.0.0.0/8"}]}`}, "d", "Vpcs.json: element 0: VpcId: expected an id"},
		"bad block": {map[string]string{"d/us-west-2/Vpcs.json": `{"Vpcs": [{"VpcId": "vpc-12345678", "CidrBlock": "10/8"}]}`}, "d", `Vpcs.json: vpc-12345678: CidrBlock: expected an address block`},
		"bad rule": {map[string]string{"d/us-west-2/Vpcs.json": vpcs, "d/us-west-2/SecurityGroups.json": `{"SecurityGroups": [{"GroupId": "sg-12345678",
			"GroupName": "g", "VpcId": "vpc-12345678", "IpPermissions": [{"IpProtocol": "tcp", "IpRanges": [{"CidrIp": "0.0.0.0/0"}]}]}]}`}, "d",
			"SecurityGroups.json: sg-12345678: IpPermissions[0]: Invalid value for portRange"},
		"bad state": {map[string]string{"d/us-west-2/Reservations.json": `{"Reservations": [{"Instances": [{"InstanceId": "i-12345678", "State": {"Name": "sleepy"}}]}]}`},
			"d", `Reservations.json: i-12345678: State.Name: expected the state of an instance, found "sleepy"`},
		"any JSON":      {map[string]string{"a.json": `{"name": "x", "devDependencies": {}}`}, "a.json", "a.json: not a description of an account: expected a collector dump"},
		"no region":     {map[string]string{"a.json": `{"vpcs": [{"VpcId": "VpcId:1"}], "security_groups": []}`}, "a.json", "a.json: vpcs: VpcId:1: Region: expected the name of a region"},
		"text":          {map[string]string{"a.json": "hello"}, "a.json", "a.json: line 1: not JSON"},
		"saved, broken": {map[string]string{"a.json": `{"version": 9, "accounts": [{"id": "1"}]}`}, "a.json", `state version 9, this program reads version 1`},
	} {
		t.Run(name, func(t *testing.T) {
			fsys := fstest.MapFS{}
			for n, text := range c.files {
				fsys[n] = &fstest.MapFile{Data: []byte(text)}
			}
			_, _, err := LoadFS(fsys, c.load)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
		})
	}
}

// TestRepairs loads a dump in which everything refers to what is not there.
func TestRepairs(t *testing.T) {
	fsys := fstest.MapFS{
		"d/us-west-2/Reservations.json": {Data: []byte(`{"Reservations": [{"OwnerId": "123456789012", "Instances": [
			{"InstanceId": "i-12345678", "State": {"Name": "running"}, "VpcId": "vpc-99999999", "SubnetId": "subnet-99999999",
			 "PrivateIpAddress": "10.7.0.9", "PublicIpAddress": "192.0.2.1", "SecurityGroups": [{"GroupId": "sg-99999999", "GroupName": "lost"}]},
			{"InstanceId": "i-12345678", "State": {"Name": "stopped"}, "VpcId": "vpc-99999999", "SubnetId": "subnet-99999999", "PrivateIpAddress": "10.7.0.9"}]}]}`)},
		"d/us-west-2/SecurityGroups.json": {Data: []byte(`{"SecurityGroups": [
			{"GroupId": "sg-12345678", "GroupName": "g", "VpcId": "vpc-99999999", "IpPermissions": [
				{"IpProtocol": "6", "FromPort": 80, "ToPort": 80, "IpRanges": [{"CidrIp": "10.0.0.1/8"}, {"CidrIp": "10.0.0.2/8"}], "PrefixListIds": [{"PrefixListId": "pl-12345678"}]}]},
			{"GroupId": "sg-87654321", "GroupName": "g", "VpcId": "vpc-99999999"}]}`)},
		"d/us-west-2/NetworkInterfaces.json": {Data: []byte(`{"NetworkInterfaces": [
			{"NetworkInterfaceId": "eni-12345678", "VpcId": "vpc-99999999", "SubnetId": "subnet-99999999", "Attachment": {"InstanceId": "i-55555555"}}]}`)},
	}
	s, r, err := LoadFS(fsys, "d")
	if err != nil {
		t.Fatalf("%v\n%s", err, r)
	}
	if got, want := counts(s), [6]int{1, 1, 4, 4, 3, 2}; got != want {
		t.Errorf("VPCs, subnets, groups, rules, interfaces, instances: %v, want %v", got, want)
	}
	for _, want := range []string{
		`refers to VPC "vpc-99999999", which is not in the dump`, `refers to subnet "subnet-99999999", which is not in the dump`,
		"holds group sg-99999999 (lost), which is not in the dump; an empty group was made up", "i-12345678: appears again",
		"has no network interface in its answer", `named "g" already, sg-12345678; this one is named "g (2)"`,
		`rule "tcp 80 from 10.0.0.0/8" appears twice`, "refers to prefix list pl-12345678", "has no security group; it is given the default group",
		"attached to i-55555555, which is not in the dump", "address 10.7.0.9 is also that of",
	} {
		if !strings.Contains(r.String(), want) {
			t.Errorf("the report does not say %q:\n%s", want, r)
		}
	}
}

// TestPeeredRegions loads a dump of two regions with a peering between two accounts, prefix lists,
// IPv6 and tags apart.
func TestPeeredRegions(t *testing.T) {
	vpcs := `{"Vpcs": [{"VpcId": "vpc-1234567%d", "CidrBlock": "10.%d.0.0/16", "OwnerId": "123456789012", "State": "available",
		"CidrBlockAssociationSet": [{"CidrBlock": "100.64.0.0/16"}, {"CidrBlock": "10.%[2]d.0.0/16"}],
		"Ipv6CidrBlockAssociationSet": [{"Ipv6CidrBlock": "2001:db8:%[2]d::/56"}]}]}`
	peerings := `{"VpcPeeringConnections": [{"VpcPeeringConnectionId": "pcx-12345678", "Status": {"Code": "active", "Message": "Active"},
		"RequesterVpcInfo": {"VpcId": "vpc-12345671", "OwnerId": "123456789012", "Region": "us-west-2", "CidrBlock": "10.1.0.0/16"},
		"AccepterVpcInfo": {"VpcId": "vpc-abcdef01", "OwnerId": "210987654321", "Region": "us-west-2", "CidrBlockSet": [{"CidrBlock": "10.9.0.0/16"}]}}]}`
	groups := `{"SecurityGroups": [{"GroupId": "sg-12345678", "GroupName": "default", "Description": "default VPC security group", "VpcId": "vpc-12345671",
		"IpPermissions": [{"IpProtocol": "-1", "PrefixListIds": [{"PrefixListId": "pl-12345678"}, {"PrefixListId": "pl-87654321"}],
			"UserIdGroupPairs": [{"GroupId": "sg-abcdef01", "UserId": "210987654321", "VpcId": "vpc-abcdef01", "VpcPeeringConnectionId": "pcx-12345678"}]}]}]}`
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	s, r, err := LoadFS(fstest.MapFS{
		"us-west-2/ec2-describe-vpcs.json":                    file(fmt.Sprintf(vpcs, 1, 1)),
		"us-west-2/ec2-describe-vpc-peering-connections.json": file(peerings),
		"us-west-2/ec2-describe-security-groups.json":         file(groups),
		"us-west-2/ec2-describe-managed-prefix-lists.json": file(
			`{"PrefixLists": [{"PrefixListId": "pl-12345678", "PrefixListName": "com.amazonaws.global.cloudfront.origin-facing", "OwnerId": "AWS"},
			{"PrefixListId": "pl-87654321", "PrefixListName": "mine", "OwnerId": "123456789012", "MaxEntries": 7, "AddressFamily": "IPv6", "Entries": [{"Cidr": "2001:db8::/32"}]}]}`,
		),
		"us-west-2/describe-tags.json":       file(`{"Tags": [{"ResourceId": "vpc-12345671", "Key": "Name", "Value": "west"}]}`),
		"us-east-1/describe-vpcs.json":       file(fmt.Sprintf(vpcs, 2, 2)),
		"us-east-1/describe-key-pairs.json":  file(`{}`),
		"describe-regions.json":              file(`{}`),
		"eu-west-1/describe-something.json":  file(`{}`),
		"eu-west-1/describe-everything.json": file(`[]`),
	}, ".")
	if err != nil {
		t.Fatal(err)
	}
	w, err := world.New(s, world.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if got := w.Accounts()[0].Regions; !slices.Equal(got, []string{"us-east-1", "us-west-2"}) {
		t.Errorf("regions %v", got)
	}
	west := s.Regions[1]
	if v := west.VPCs[0]; v.CIDRs[0].Prefix.String() != "10.1.0.0/16" || len(v.CIDRs) != 3 || v.Tags["Name"] != "west" {
		t.Errorf("VPC %+v", v)
	}
	if l := west.PrefixLists; l[0].MaxEntries != 55 || l[0].OwnerID != aws.AWSOwned || l[1].MaxEntries != 7 || len(l[1].Entries()) != 1 {
		t.Errorf("prefix lists %+v", l)
	}
	region, err := w.Region("123456789012", "us-west-2")
	if err != nil {
		t.Fatal(err)
	}
	g, err := region.SecurityGroups("sg-12345678")
	if err != nil || len(g[0].Rules) != 3 || g[0].Rules[0].Group.UserID != "210987654321" || g[0].Rules[0].Group.PeeringStatus != "active" {
		t.Errorf("group %+v (%v)", g, err)
	}
	if p, err := region.Peerings().PeeringConnections(); err != nil || len(p) != 1 || p[0].Accepter.Account != "210987654321" || p[0].Accepter.CIDRs[0].String() != "10.9.0.0/16" {
		t.Errorf("peerings %+v (%v)", p, err)
	}
	if len(r.Ignored) != 3 || !strings.Contains(r.String(), "pl-12345678: the dump does not hold its entries") {
		t.Errorf("report %s", r)
	}
}

// TestPolicies reads IAM policies of keys and roles, and finds them again in a saved state.
func TestPolicies(t *testing.T) {
	t.Parallel()
	const text = `
accounts:
- id: "111122223333"
  credentials:
  - accessKeyId: AKIAREADER0000000000
    secret: s
    policy: {Version: "2012-10-17", Statement: [{Effect: Allow, Action: "ec2:Describe*", Resource: "*"}]}
  roles:
  - name: writer
    trusted: ["111122223333"]
    policy: {Version: "2012-10-17", Statement: [{Effect: Allow, Action: ["ec2:*"], Resource: "*"}]}
  regions: [{name: eu-west-1}]
`
	s, _, err := LoadFS(fstest.MapFS{"e.yaml": {Data: []byte(text)}}, "e.yaml")
	if err != nil {
		t.Fatal(err)
	}
	saved, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	var again aws.State
	if err := json.Unmarshal(saved, &again); err != nil {
		t.Fatal(err)
	}
	for _, action := range []string{"ec2:DescribeVpcs", "ec2:DeleteSecurityGroup", "sqs:ReceiveMessage"} {
		asked := iam.Request{Action: action, Resource: "*"}
		if have, want := again.Credentials[0].Policy.Allows(asked), action == "ec2:DescribeVpcs"; have != want {
			t.Errorf("the key may %s: %v, want %v", action, have, want)
		}
		if have, want := again.Roles[0].Policy.Allows(asked), strings.HasPrefix(action, "ec2:"); have != want {
			t.Errorf("the role may %s: %v, want %v", action, have, want)
		}
	}
	broken := strings.Replace(text, "Effect: Allow", "Effect: Maybe", 1)
	if _, _, err := LoadFS(
		fstest.MapFS{"e.yaml": {Data: []byte(broken)}},
		"e.yaml",
	); err == nil ||
		!strings.Contains(err.Error(), "Statement[0]: element Effect: expected Allow or Deny") {
		t.Errorf("a broken policy: %v", err)
	}
}
