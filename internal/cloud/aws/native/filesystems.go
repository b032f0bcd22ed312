package native

import (
	"cmp"
	"context"
	"slices"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/efs"
	efstypes "github.com/aws/aws-sdk-go-v2/service/efs/types"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/aws/bounds"
)

// This file reads and sets file systems. Each mount target has an interface with groups of its own;
// we set all of them alike, and the file system's tags remember what they had. One whose mount
// targets differ is therefore left to its owner.

// differing says why the groups of a file system are not set.
const differing = "its mount targets have different security groups: give all of them the same ones"

func (r *serviceReader) fileSystems(ctx context.Context) error {
	api := efs.NewFromConfig(r.conn.Base, func(o *efs.Options) { o.Region = r.conn.Region })
	return r.paged("DescribeFileSystems", func(mark *string) (*string, error) {
		out, err := api.DescribeFileSystems(ctx, &efs.DescribeFileSystemsInput{Marker: mark})
		if err != nil {
			return nil, err
		}
		for _, x := range out.FileSystems {
			d := description{Service: cloud.Service{ID: awssdk.ToString(x.FileSystemArn), Kind: cloud.EFSFileSystem}}
			d.Name = cmp.Or(awssdk.ToString(x.Name), awssdk.ToString(x.FileSystemId))
			for _, t := range x.Tags {
				d.tag(t.Key, t.Value)
			}
			d.listens("nfs", cloud.TCP, 2049)
			if err := r.add(d); err != nil {
				return nil, err
			}
		}
		return out.NextMarker, nil
	})
}

// differ reports whether a service has interfaces with different groups. The interfaces of a
// service that we have taken over may differ: a new mount target, or a change by hand, is then put
// right.
func differ(s *cloud.Service, nics []*cloud.Interface) bool {
	return cloud.FormerGroups(s.Tags) == nil && slices.ContainsFunc(nics, func(n *cloud.Interface) bool { return !slices.Equal(n.GroupIDs, nics[0].GroupIDs) })
}

func (s setting) efs() *efs.Client {
	return efs.NewFromConfig(s.conn.Base, func(o *efs.Options) { o.Region = s.conn.Region })
}

// setFileSystem gives all mount targets of a file system the groups, one after the other.
func (s setting) setFileSystem(ctx context.Context, id string) error {
	api := s.efs()
	var targets []string
	in := &efs.DescribeMountTargetsInput{FileSystemId: awssdk.String(id)}
	for n := 0; n == 0 || awssdk.ToString(in.Marker) != ""; n++ {
		if bound := s.conn.Bounds.Pages; n == bound {
			return s.conn.classify("DescribeMountTargets", &cloud.BoundError{What: "the listing has", Bound: int64(bound), Unit: "pages", Flag: bounds.FlagPages})
		}
		out, err := api.DescribeMountTargets(ctx, in)
		if err != nil {
			return s.conn.classify("DescribeMountTargets", err)
		}
		for _, x := range out.MountTargets {
			if x.LifeCycleState != efstypes.LifeCycleStateDeleting && x.LifeCycleState != efstypes.LifeCycleStateDeleted {
				targets = append(targets, awssdk.ToString(x.MountTargetId))
			}
		}
		in.Marker = out.NextMarker
	}
	for _, target := range targets {
		if err := s.given(ctx, "ModifyMountTargetSecurityGroups", func() error {
			_, err := api.ModifyMountTargetSecurityGroups(ctx, &efs.ModifyMountTargetSecurityGroupsInput{MountTargetId: awssdk.String(target), SecurityGroups: s.op.GroupIDs})
			return err
		}); err != nil {
			return err
		}
	}
	return nil
}

func (s setting) tagFileSystem(ctx context.Context, id string) error {
	tags := tagsOf(s, func(k, v *string) efstypes.Tag { return efstypes.Tag{Key: k, Value: v} })
	_, err := s.efs().TagResource(ctx, &efs.TagResourceInput{ResourceId: awssdk.String(id), Tags: tags})
	return s.conn.classify("TagResource", err)
}

func (s setting) untagFileSystem(ctx context.Context, id string) error {
	_, err := s.efs().UntagResource(ctx, &efs.UntagResourceInput{ResourceId: awssdk.String(id), TagKeys: s.keys()})
	return s.conn.classify("UntagResource", err)
}
