package dump

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// The types of this file are describe answers as JSON, with the member names that the EC2 tools
// print.

type rawTag struct{ Key, Value string }

type rawVPC struct {
	VpcId, OwnerId, CidrBlock, State, DhcpOptionsId, InstanceTenancy, Region string
	IsDefault                                                                bool
	CidrBlockAssociationSet                                                  []struct{ AssociationId, CidrBlock string }
	Ipv6CidrBlockAssociationSet                                              []struct{ AssociationId, Ipv6CidrBlock string }
	Tags                                                                     []rawTag
}

type rawSubnet struct {
	SubnetId, VpcId, OwnerId, CidrBlock, State, AvailabilityZone, AvailabilityZoneId string
	DefaultForAz, MapPublicIpOnLaunch                                                bool
	Ipv6CidrBlockAssociationSet                                                      []struct{ AssociationId, Ipv6CidrBlock string }
	Tags                                                                             []rawTag
}

type rawGroupName struct{ GroupId, GroupName string }

type rawAssociation struct{ PublicIp, IpOwnerId string }

type rawPrivateIP struct {
	PrivateIpAddress string
	Primary          bool
	Association      *rawAssociation
}

type rawAttachment struct {
	AttachmentId, InstanceId, Status string
	DeviceIndex                      int
	DeleteOnTermination              bool
	AttachTime                       rawTime
}

type rawNIC struct {
	NetworkInterfaceId, VpcId, SubnetId, OwnerId, AvailabilityZone, Description string
	InterfaceType, MacAddress, RequesterId, Status, PrivateIpAddress            string
	RequesterManaged                                                            bool
	SourceDestCheck                                                             *bool
	Association                                                                 *rawAssociation
	PrivateIpAddresses                                                          []rawPrivateIP
	Ipv6Addresses                                                               []struct{ Ipv6Address string }
	Ipv6Address                                                                 string
	Ipv4Prefixes                                                                []struct{ Ipv4Prefix string }
	Ipv6Prefixes                                                                []struct{ Ipv6Prefix string }
	Groups                                                                      []rawGroupName
	Attachment                                                                  *rawAttachment
	TagSet                                                                      []rawTag
}

type rawInstance struct {
	InstanceId, ImageId, InstanceType, KeyName, ClientToken string
	VpcId, SubnetId, PrivateIpAddress, PublicIpAddress      string
	Ipv6Address                                             string
	StateTransitionReason                                   string
	AmiLaunchIndex                                          int
	LaunchTime                                              rawTime
	State                                                   struct{ Name string }
	Placement                                               struct{ AvailabilityZone, Tenancy string }
	SecurityGroups                                          []rawGroupName
	NetworkInterfaces                                       []rawNIC
	Tags                                                    []rawTag
}

type rawReservation struct {
	ReservationId, OwnerId string
	Instances              []rawInstance
}

type rawPermission struct {
	IpProtocol       string
	FromPort, ToPort *int32
	IpRanges         []struct{ CidrIp, Description string }
	Ipv6Ranges       []struct{ CidrIpv6, Description string }
	PrefixListIds    []struct{ PrefixListId, Description string }
	UserIdGroupPairs []struct {
		GroupId, GroupName, UserId, VpcId, VpcPeeringConnectionId, Description string
	}
}

type rawGroup struct {
	GroupId, GroupName, Description, VpcId, OwnerId string
	IpPermissions, IpPermissionsEgress              []rawPermission
	Tags                                            []rawTag
}

type rawPeeringSide struct {
	VpcId, OwnerId, Region, CidrBlock string
	CidrBlockSet                      []struct{ CidrBlock string }
	Ipv6CidrBlockSet                  []struct{ Ipv6CidrBlock string }
}

type rawPeering struct {
	VpcPeeringConnectionId            string
	Status                            struct{ Code, Message string }
	RequesterVpcInfo, AccepterVpcInfo rawPeeringSide
	Tags                              []rawTag
}

type rawPrefixList struct {
	PrefixListId, PrefixListName, OwnerId, AddressFamily string
	MaxEntries                                           int
	Cidrs                                                []string
	Entries                                              []struct{ Cidr, Description string }
	Tags                                                 []rawTag
}

type rawZone struct{ ZoneName, ZoneId string }

type rawResourceTag struct{ ResourceId, Key, Value string }

// Region is everything that a dump says of one region.
type Region struct {
	name         string
	vpcs         []rawVPC
	subnets      []rawSubnet
	nics         []rawNIC
	reservations []rawReservation
	groups       []rawGroup
	peerings     []rawPeering
	prefixLists  []rawPrefixList
	zones        []rawZone
	tags         []rawResourceTag
	rawFabric
	rawServices
	files   map[string]string // member name -> file, for messages
	present map[string]bool   // members that were there, even if empty
}

// file names the file that a kind of objects came from.
func (r *Region) file(member string) string { return r.files[member] }

// rawTime reads the notations of time that the EC2 tools have used.
type rawTime struct{ time.Time }

// maxSeconds are those until the year 5138. More is reported in milliseconds.
const maxSeconds = 1e11

// UnmarshalJSON implements json.Unmarshaler.
func (t *rawTime) UnmarshalJSON(b []byte) error {
	var seconds float64
	if string(b) != "null" && json.Unmarshal(b, &seconds) == nil { // as the services send it
		if seconds > maxSeconds {
			seconds /= 1000 // or in milliseconds
		}
		if seconds < 0 || seconds > maxSeconds {
			return fmt.Errorf("expected seconds or milliseconds since 1970, not %s", b)
		}
		t.Time = time.UnixMilli(int64(seconds * 1000)).UTC()
		return nil
	}
	var s string
	if err := json.Unmarshal(b, &s); err != nil {
		return fmt.Errorf("expected a time such as 2017-12-01T00:00:00Z: %w", err)
	}
	if s == "" {
		return nil
	}
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02 15:04:05Z07:00"} {
		if at, err := time.Parse(layout, strings.TrimSpace(s)); err == nil {
			t.Time = at.UTC()
			return nil
		}
	}
	return fmt.Errorf("expected a time such as 2017-12-01T00:00:00Z, not %q", s)
}
