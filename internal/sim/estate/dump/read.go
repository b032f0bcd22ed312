// Package dump makes an account of what the cloud has answered about a real one: describe answers
// as JSON, or the dump of a collector.
//
// It owns the conversion: ids that are none get one, what is missing is made up, and what
// contradicts itself is repaired, each with a line in the report of the source; see
// internal/sim/estate. It keeps no state.
package dump

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"strings"

	"github.com/nephele-io/nephele/internal/sim/aws"
	"github.com/nephele-io/nephele/internal/sim/estate/source"
)

// calls maps the describe calls that matter, as the command line names them, to the member that
// their answer holds. It is never written to.
var calls = map[string]string{
	"vpcs": "Vpcs", "subnets": "Subnets", "network-interfaces": "NetworkInterfaces", "instances": "Reservations",
	"security-groups": "SecurityGroups", "vpc-peering-connections": "VpcPeeringConnections",
	"prefix-lists": "PrefixLists", "managed-prefix-lists": "PrefixLists", "availability-zones": "AvailabilityZones",
	"tags": "Tags", "route-tables": "RouteTables", "network-acls": "NetworkAcls", "internet-gateways": "InternetGateways",
	"db-instances": "DBInstances", "db-clusters": "DBClusters", "cache-clusters": "CacheClusters", "replication-groups": "ReplicationGroups",
	"cache-subnet-groups": "CacheSubnetGroups", "load-balancers": "LoadBalancers", "listeners": "Listeners", "target-groups": "TargetGroups",
	"vpc-endpoints": "VpcEndpoints", "file-systems": "FileSystems", "mount-targets": "MountTargets", "functions": "Functions",
}

// memberOf returns the member that a file of this name must hold, or "" if the simulator has no use
// for the file.
func memberOf(file string) string {
	stem, ok := strings.CutSuffix(file, ".json")
	if !ok {
		return ""
	}
	for _, member := range calls {
		if stem == member {
			return member
		}
	}
	for _, service := range []string{"ec2-", "rds-", "elasticache-", "elbv2-", "efs-", "lambda-"} {
		stem = strings.TrimPrefix(stem, service)
	}
	for _, verb := range []string{"describe-", "list-"} {
		if call, ok := strings.CutPrefix(stem, verb); ok {
			return calls[call]
		}
	}
	return ""
}

// IsAnswer reports whether a file shows that its folder is that of a region.
func IsAnswer(file string) bool { return memberOf(file) != "" }

// reader is one run over a source.
type reader struct{ *source.Source }

// ReadRegion reads the folder of one region. found is false when no file in it is a describe
// answer.
func ReadRegion(from *source.Source, dir string) (r Region, found bool, err error) {
	l := reader{from}
	r = Region{name: path.Base(dir), files: map[string]string{}, present: map[string]bool{}}
	if dir == "." {
		r.name = ""
	}
	entries, err := fs.ReadDir(l.FS, dir)
	if err != nil {
		return r, false, fmt.Errorf("load an estate: %w", err)
	}
	for _, e := range entries {
		full := path.Join(dir, e.Name())
		member := memberOf(e.Name())
		if e.IsDir() || member == "" {
			l.Report.Ignored = append(l.Report.Ignored, full)
			continue
		}
		found = true
		data, err := l.Read(full)
		if err != nil {
			return r, false, err
		}
		members, err := source.Members(l.Path(full), data)
		if err != nil {
			return r, false, err
		}
		content, ok := members[member]
		if !ok {
			return r, false, fmt.Errorf("%s: not a describe answer: expected an object with the member %q, found %s", l.Path(full), member, source.List(members))
		}
		if err := checkWhole(l.Path(full), member, members); err != nil {
			return r, false, err
		}
		r.files[member], r.present[member] = l.Path(full), true
		if err := r.decode(l.Path(full), member, content); err != nil {
			return r, false, err
		}
	}
	if found && len(r.vpcs)+len(r.groups)+len(r.reservations)+len(r.nics) > 0 && r.name == "" {
		if r.name = r.guessName(); r.name == "" {
			return r, false, fmt.Errorf("%s: expected the folder to be named after its region, such as us-west-2", l.Path(dir))
		}
	}
	if found {
		l.findMissing(l.Path(dir), &r, false)
	}
	return r, found, nil
}

// zoneName finds the region at the beginning of the name of a zone: us-west-2a, the Local Zone
// us-west-2-lax-1a and the Wavelength Zone us-east-1-wl1-bos-wlz-1.
var zoneName = regexp.MustCompile(`^([a-z]+(?:-[a-z]+)+-[0-9]+)(?:[a-z]|-[a-z0-9-]+)$`)

// regionOf is the region of a zone; "" if that is not the name of one.
func regionOf(zone string) string {
	if m := zoneName.FindStringSubmatch(zone); m != nil {
		return m[1]
	}
	return ""
}

// guessName reads the region off an availability zone.
func (r *Region) guessName() string {
	for _, s := range r.subnets {
		if region := regionOf(s.AvailabilityZone); region != "" {
			return region
		}
	}
	return ""
}

func (r *Region) decode(file, member string, content json.RawMessage) error {
	if member == "PrefixLists" {
		var lists []rawPrefixList
		if err := source.Decode(file, member, content, &lists); err != nil {
			return err
		}
		r.addPrefixLists(lists)
		return nil
	}
	into := map[string]any{
		"Vpcs": &r.vpcs, "Subnets": &r.subnets, "NetworkInterfaces": &r.nics, "Reservations": &r.reservations,
		"SecurityGroups": &r.groups, "VpcPeeringConnections": &r.peerings,
		"AvailabilityZones": &r.zones, "Tags": &r.tags, "RouteTables": &r.tables, "NetworkAcls": &r.acls, "InternetGateways": &r.gateways,
	}[member]
	if into == nil {
		into = r.serviceMembers()[member]
	}
	return source.Decode(file, member, content, into)
}

// Collector reads a collector dump: like the answers above, but in one object, with other names for
// the members and instances without reservations.
func Collector(from *source.Source, name string, members map[string]json.RawMessage) (aws.State, error) {
	l := reader{from}
	r := Region{files: map[string]string{}, present: map[string]bool{}}
	var instances []rawInstance
	for member, part := range map[string]struct {
		into any
		as   string
	}{
		"vpcs": {&r.vpcs, "Vpcs"}, "subnets": {&r.subnets, "Subnets"}, "security_groups": {&r.groups, "SecurityGroups"},
		"instances": {&instances, "Reservations"}, "network_interfaces": {&r.nics, "NetworkInterfaces"},
		"vpc_peering_connections": {&r.peerings, "VpcPeeringConnections"}, "route_tables": {&r.tables, "RouteTables"},
		"network_acls": {&r.acls, "NetworkAcls"}, "internet_gateways": {&r.gateways, "InternetGateways"},
	} {
		if members[member] == nil {
			continue
		}
		if err := source.Decode(l.Path(name), member, members[member], part.into); err != nil {
			return aws.State{}, err
		}
		r.present[part.as] = true
	}
	for _, member := range calls {
		r.files[member] = l.Path(name)
	}
	r.reservations = []rawReservation{{Instances: instances}}
	l.findMissing(l.Path(name), &r, true)
	return l.collectorRegions(l.Path(name), r)
}

// regionOfZones is the region that all zones of the subnets are in; "" if they name none, or
// several.
func regionOfZones(subnets []rawSubnet) string {
	region := ""
	for _, s := range subnets {
		of := regionOf(s.AvailabilityZone)
		switch {
		case of == "":
		case region == "":
			region = of
		case region != of:
			return ""
		}
	}
	return region
}

// collectorRegions finds out which region a collector dump is of: the one that its VPCs name, or
// the one of its zones.
func (l reader) collectorRegions(name string, all Region) (aws.State, error) {
	region, zoned := "", regionOfZones(all.subnets)
	for _, v := range all.vpcs {
		if v.Region == "" {
			v.Region = zoned // some collectors leave it out
		}
		switch {
		case v.Region == "":
			return aws.State{}, fmt.Errorf("%s: vpcs: %s: Region: expected the name of a region, or subnets with an AvailabilityZone", name, v.VpcId)
		case region == "":
			region = v.Region
		case region != v.Region:
			return aws.State{}, fmt.Errorf(
				"%s: vpcs: %s: Region: expected %s as for the other VPCs, found %s; dumps of several regions must be split",
				name,
				v.VpcId,
				region,
				v.Region,
			)
		}
	}
	if region == "" {
		return aws.State{}, fmt.Errorf("%s: vpcs: expected at least one VPC", name)
	}
	all.name = region
	return Convert(l.Source, []Region{all}, "")
}
