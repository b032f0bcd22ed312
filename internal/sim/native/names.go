package native

import (
	"crypto/sha256"
	"encoding/base32"
	"encoding/hex"
	"slices"
	"strings"
)

// Interface is how an interface of a service shows in EC2.
type Interface struct {
	Type, RequesterID, Description string
	// AttachmentOwner is the instanceOwnerId of its attachment.
	AttachmentOwner string
	SourceDestCheck bool
}

// serviceAccounts are accounts of the cloud that act for a service; EC2 names them as requesters
// where a service has no alias such as amazon-rds. The numbers differ from region to region, so
// that no one may rely on one. It is never written to.
var serviceAccounts = map[Kind]string{Endpoint: "727180483921", MountTarget: "641247547298", GatewayBalancer: "187247547298"}

// InterfaceOf says how an interface of the service shows. The types are the types of the EC2 API
// reference (NetworkInterface, interfaceType); descriptions and requesters those that the services
// are seen to write, as in "Requester-managed network interfaces" of the EC2 User Guide.
func (s *Service) InterfaceOf() Interface {
	out := Interface{Type: "interface", AttachmentOwner: "amazon-aws", SourceDestCheck: true, RequesterID: serviceAccounts[s.Kind]}
	switch s.Kind {
	case Database:
		out.RequesterID, out.AttachmentOwner, out.Description = "amazon-rds", "amazon-rds", "RDSNetworkInterface"
	case Cache:
		out.RequesterID, out.AttachmentOwner, out.Description = "amazon-elasticache", "amazon-elasticache", "ElastiCache "+s.Name
	case AppBalancer:
		out.RequesterID, out.AttachmentOwner, out.Description = "amazon-elb", "amazon-elb", "ELB "+s.Name
		out.SourceDestCheck = false
	case NetBalancer:
		out.RequesterID, out.Type, out.Description = "amazon-elb", "network_load_balancer", "ELB "+s.Name
		out.SourceDestCheck = false
	case GatewayBalancer:
		out.Type, out.Description, out.SourceDestCheck = "gateway_load_balancer", "ELB "+s.Name, false
	case Endpoint:
		out.Type, out.Description = "vpc_endpoint", "VPC Endpoint Interface "+s.Name
	case MountTarget:
		out.Type, out.Description = "efs", "EFS mount target for "+s.Parent+" ("+s.Name+")"
	case Function:
		out.Type, out.RequesterID = "lambda", "AROA"+strings.ToUpper(short("role/"+s.Account, 17))+":"+s.Account
		out.Description = "AWS Lambda VPC ENI-" + s.Name + "-" + uuid(s.Account+"/"+s.Region+"/"+s.Name)
	}
	return out
}

// ARN is the Amazon resource name, as the Service Authorization Reference spells it.
func (s *Service) ARN() string { return ARN(s.Kind, s.Region, s.Account, s.Name) }

// ARN is the Amazon resource name of a service of a kind.
func ARN(k Kind, region, account, name string) string {
	at := ":" + region + ":" + account + ":"
	switch k {
	case Database:
		return "arn:aws:rds" + at + "db:" + name
	case DatabaseCluster:
		return "arn:aws:rds" + at + "cluster:" + name
	case Cache:
		return "arn:aws:elasticache" + at + "cluster:" + name
	case ReplicationGroup:
		return "arn:aws:elasticache" + at + "replicationgroup:" + name
	case AppBalancer, NetBalancer, GatewayBalancer:
		return "arn:aws:elasticloadbalancing" + at + "loadbalancer/" + name
	case Endpoint:
		return "arn:aws:ec2" + at + "vpc-endpoint/" + name
	case Function:
		return "arn:aws:lambda" + at + "function:" + name
	case FileSystem:
		return "arn:aws:elasticfilesystem" + at + "file-system/" + name
	}
	return "arn:aws:elasticfilesystem" + at + "mount-target/" + name
}

// ARN is the Amazon resource name of the target group.
func (g *TargetGroup) ARN() string {
	return "arn:aws:elasticloadbalancing:" + g.Region + ":" + g.Account + ":targetgroup/" + g.Name
}

// ListenerARN is the Amazon resource name of a listener of the balancer.
func (s *Service) ListenerARN(l Listener) string {
	return "arn:aws:elasticloadbalancing:" + s.Region + ":" + s.Account + ":listener/" + s.Name + "/" + l.ID
}

// HostName is the name that clients find the service by: of a cluster and of a replication group
// the one that leads to the writer. Functions, mount targets and gateway load balancers have none.
func (s *Service) HostName() string {
	if s.Host != "" {
		return s.Host
	}
	own := short(s.Account+"/"+s.Region, 12)
	switch s.Kind {
	case Database:
		return s.Name + "." + own + "." + s.Region + ".rds.amazonaws.com"
	case DatabaseCluster:
		return s.Name + ".cluster-" + own + "." + s.Region + ".rds.amazonaws.com"
	case Cache:
		return s.Name + "." + own[:6] + ".0001." + shortRegion(s.Region) + ".cache.amazonaws.com"
	case ReplicationGroup:
		return s.Name + "." + own[:6] + ".ng.0001." + shortRegion(s.Region) + ".cache.amazonaws.com"
	case AppBalancer, NetBalancer:
		return s.balancerHost()
	case Endpoint:
		service := s.Engine[strings.LastIndex(s.Engine, ".")+1:]
		return s.Name + "-" + short(s.Name, 8) + "." + service + "." + s.Region + ".vpce.amazonaws.com"
	case FileSystem:
		return s.Name + ".efs." + s.Region + ".amazonaws.com"
	}
	return ""
}

// ReaderHost is the name that leads to the readers of a cluster or replication group; "" for other
// kinds.
func (s *Service) ReaderHost() string {
	switch s.Kind {
	case DatabaseCluster:
		return strings.Replace(s.HostName(), ".cluster-", ".cluster-ro-", 1)
	case ReplicationGroup:
		return strings.Replace(s.HostName(), ".ng.", "-ro.ng.", 1)
	}
	return ""
}

// balancerHost is NAME-HEX.REGION.elb.amazonaws.com for application load balancers and
// NAME-HEX.elb.REGION.amazonaws.com for network load balancers; names of internal ones say so.
func (s *Service) balancerHost() string {
	parts := strings.Split(s.Name, "/")
	name, id := parts[len(parts)-1], ""
	if len(parts) == 3 {
		name, id = parts[1], parts[2]
	}
	if s.Kind != AppBalancer {
		return name + "-" + id + ".elb." + s.Region + ".amazonaws.com"
	}
	if !s.Public {
		name = "internal-" + name
	}
	return strings.ToLower(name) + "-" + digits(s.Name) + "." + s.Region + ".elb.amazonaws.com"
}

// shortRegion is a region's name as caches write it: eu-west-1 is euw1.
func shortRegion(region string) string {
	return strings.NewReplacer("north", "n", "south", "s", "east", "e", "west", "w", "central", "c", "-", "").Replace(region)
}

// short is a text of n letters and digits, at most 52, that depends on s alone.
func short(s string, n int) string {
	d := sha256.Sum256([]byte(s))
	return strings.ToLower(base32.StdEncoding.EncodeToString(d[:]))[:n]
}

func digits(s string) string {
	var out []byte
	for _, b := range sha256.Sum256([]byte(s)) {
		out = append(out, '0'+b%10)
	}
	return string(out[:10])
}

func uuid(s string) string {
	d := sha256.Sum256([]byte(s))
	h := hex.EncodeToString(d[:16])
	return strings.Join([]string{h[:8], h[8:12], h[12:16], h[16:20], h[20:]}, "-")
}

// BalancerName is the name of a balancer with this display name: KIND/NAME/HEX.
func BalancerName(k Kind, account, region, name string) string {
	prefix := map[Kind]string{AppBalancer: "app", NetBalancer: "net", GatewayBalancer: "gwy"}[k]
	return prefix + "/" + name + "/" + Hex(account, region, name)
}

// Hex is a part of an ARN, 16 hexadecimal digits, that depends on its arguments alone.
func Hex(parts ...string) string {
	d := sha256.Sum256([]byte(strings.Join(parts, "/")))
	return hex.EncodeToString(d[:8])
}

// Display is the name that people gave the service: for balancers the middle of Name.
func (s *Service) Display() string {
	if parts := strings.Split(s.Name, "/"); s.Kind.Balances() && len(parts) == 3 {
		return parts[1]
	}
	return s.Name
}

// DefaultPort is the port that an engine listens on if no one says another.
func DefaultPort(engine string) int {
	for _, d := range []struct {
		port int
		of   []string
	}{
		{5432, []string{"postgres", "aurora-postgresql"}}, {3306, []string{"mysql", "mariadb", "aurora-mysql", "aurora"}},
		{6379, []string{"redis", "valkey"}}, {11211, []string{"memcached"}}, {50000, []string{"db2-se", "db2-ae"}},
	} {
		if slices.Contains(d.of, engine) {
			return d.port
		}
	}
	switch {
	case strings.HasPrefix(engine, "oracle"):
		return 1521
	case strings.HasPrefix(engine, "sqlserver"):
		return 1433
	}
	return 0
}
