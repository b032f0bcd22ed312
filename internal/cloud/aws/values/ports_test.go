package values

import (
	"testing"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/nephele-io/nephele/internal/cloud"
)

// TestOtherProtocolsHavePorts: protocols without ports are sent with -1, which EC2 takes as well as
// nothing and others only so; and however a service tells them, they are the same rule.
func TestOtherProtocolsHavePorts(t *testing.T) {
	t.Parallel()
	for _, protocol := range []int{cloud.AnyProtocol, 47, 50, 132} {
		match := cloud.NewMatch(protocol, 0, 0)
		perm, err := Permission(match)
		if err != nil {
			t.Fatal(err)
		}
		if perm.FromPort == nil || perm.ToPort == nil || *perm.FromPort != -1 || *perm.ToPort != -1 {
			t.Errorf("protocol %d is sent with ports %v and %v", protocol, perm.FromPort, perm.ToPort)
		}
		for _, ports := range [][2]*int32{{nil, nil}, {awssdk.Int32(-1), awssdk.Int32(-1)}, {awssdk.Int32(0), awssdk.Int32(0)}, {awssdk.Int32(0), awssdk.Int32(65535)}, {awssdk.Int32(0), nil}} {
			got, err := matchOf(types.IpPermission{IpProtocol: perm.IpProtocol, FromPort: ports[0], ToPort: ports[1]})
			if err != nil || got != match {
				t.Errorf("protocol %d told with %v and %v is %v, %v; want %v", protocol, ports[0], ports[1], got, err, match)
			}
		}
	}
}
