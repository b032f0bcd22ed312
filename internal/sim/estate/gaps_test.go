package estate

import (
	"reflect"
	"strings"
	"testing"
	"testing/fstest"
)

// regionFiles is the folder of a region with the least that is whole; change may say otherwise.
func regionFiles(change map[string]string) fstest.MapFS {
	files := map[string]string{
		"Vpcs":                  `{"Vpcs": [{"VpcId": "vpc-00000000000000001", "OwnerId": "111122223333", "CidrBlock": "10.0.0.0/16"}]}`,
		"Subnets":               `{"Subnets": [{"SubnetId": "subnet-00000000000000001", "VpcId": "vpc-00000000000000001", "CidrBlock": "10.0.0.0/24"}]}`,
		"Reservations":          `{"Reservations": []}`,
		"NetworkInterfaces":     `{"NetworkInterfaces": []}`,
		"VpcPeeringConnections": `{"VpcPeeringConnections": []}`,
		"SecurityGroups": `{"SecurityGroups": [{"GroupId": "sg-00000000000000001", "GroupName": "web", "VpcId": "vpc-00000000000000001",
			"IpPermissions": [{"IpProtocol": "tcp", "FromPort": 443, "ToPort": 443, "PrefixListIds": [{"PrefixListId": "pl-00000000000000001"}]}]}]}`,
		"PrefixLists": `{"PrefixLists": [{"PrefixListId": "pl-00000000000000001", "PrefixListName": "offices", "Entries": [{"Cidr": "198.51.100.0/24"}]}]}`,
	}
	out := fstest.MapFS{}
	for name, text := range files {
		out["eu-west-1/"+name+".json"] = &fstest.MapFile{Data: []byte(text)}
	}
	for name, text := range change {
		delete(out, "eu-west-1/"+name+".json")
		if text != "" {
			out["eu-west-1/"+name+".json"] = &fstest.MapFile{Data: []byte(text)}
		}
	}
	return out
}

// TestGaps: what is missing is told, with whether the rest refers to it.
func TestGaps(t *testing.T) {
	type gap struct {
		place, object string
		needed        bool
	}
	const dir = "eu-west-1"
	for name, c := range map[string]struct {
		change map[string]string
		want   []gap
	}{
		"whole":            {nil, nil},
		"an empty list":    {map[string]string{"PrefixLists": `{"PrefixLists": [{"PrefixListId": "pl-00000000000000001", "Entries": []}]}`}, nil},
		"lists needed":     {map[string]string{"PrefixLists": ""}, []gap{{dir, "PrefixLists", true}}},
		"lists not needed": {map[string]string{"PrefixLists": "", "SecurityGroups": `{"SecurityGroups": []}`}, []gap{{dir, "PrefixLists", false}}},
		"entries": {
			map[string]string{"PrefixLists": `{"PrefixLists": [{"PrefixListId": "pl-00000000000000001", "MaxEntries": 5}, {"PrefixListId": "pl-00000000000000002"}]}`},
			[]gap{{dir + "/PrefixLists.json", "pl-00000000000000001", true}},
		},
		"peerings": {map[string]string{"VpcPeeringConnections": ""}, []gap{{dir, "VpcPeeringConnections", true}}},
		"a VPC":    {map[string]string{"Vpcs": `{"Vpcs": []}`}, []gap{{dir + "/Vpcs.json", "vpc-00000000000000001", true}}},
		"both calls": {map[string]string{
			"PrefixLists":                       "",
			"ec2-describe-managed-prefix-lists": `{"PrefixLists": [{"PrefixListId": "pl-00000000000000001", "MaxEntries": 5, "OwnerId": "AWS"}]}`,
			"ec2-describe-prefix-lists":         `{"PrefixLists": [{"PrefixListId": "pl-00000000000000001", "Cidrs": ["198.51.100.0/24"]}]}`,
		}, nil},
	} {
		s, report, err := LoadFS(regionFiles(c.change), ".")
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var got []gap
		for _, g := range report.Gaps {
			if g.Region != "eu-west-1" || g.Expected == "" || g.Taken == "" {
				t.Errorf("%s: %+v", name, g)
			}
			got = append(got, gap{g.Place, g.Object, g.Needed})
		}
		if !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
		if name == "both calls" {
			if l := s.Regions[0].PrefixLists; len(l) != 1 || l[0].MaxEntries != 5 || len(l[0].Versions[0]) != 1 {
				t.Errorf("both calls: %+v", l)
			}
		}
	}
}

// TestNextToken: a page is no answer.
func TestNextToken(t *testing.T) {
	for token, refused := range map[string]bool{`"more"`: true, `""`: false, `null`: false} {
		_, _, err := LoadFS(regionFiles(map[string]string{"Reservations": `{"Reservations": [], "NextToken": ` + token + `}`}), ".")
		if (err != nil) != refused || refused && !strings.HasPrefix(err.Error(), "eu-west-1/Reservations.json: NextToken: ") {
			t.Errorf("%s: %v", token, err)
		}
	}
}
