package native

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/elasticache"
	cachetypes "github.com/aws/aws-sdk-go-v2/service/elasticache/types"

	"github.com/nephele-io/nephele/internal/cloud"
)

// This file reads and sets caches. A replication group has no security groups in the API: its
// members have, and only the replication group sets them. Tags have to be asked for one by one, and
// are reported only while nothing is being changed; the groups of a replication group are written
// to its members as well.

const (
	cacheTagsAPI   = "ElastiCache tags"
	cacheTagsRight = "elasticache:ListTagsForResource"
	// formerPrefix begins the tags in which we remember what a service had.
	formerPrefix = "nephele.io/former-"
	// available is the state in which a cache takes calls.
	available = "available"
)

// cacheBook is what calls about single caches of a region have said.
type cacheBook struct {
	mu   sync.Mutex
	tags turns[map[string]string]
}

func (r *serviceReader) cacheAPI() *elasticache.Client {
	return elasticache.NewFromConfig(r.conn.Base, func(o *elasticache.Options) { o.Region = r.conn.Region })
}

func (r *serviceReader) caches(ctx context.Context) error {
	api := r.cacheAPI()
	tagged := map[string]bool{} // IDs of those that may be asked for their tags
	members, err := r.cacheClusters(ctx, api, tagged)
	if err != nil {
		return err
	}
	if len(members) > 0 {
		n := len(r.found)
		if err := r.replicationGroups(ctx, api, members, tagged); err != nil {
			r.found = r.found[:n]
			r.missed = map[cloud.ServiceKind]bool{cloud.ElastiCacheReplicationGroup: true}
			r.faults = append(r.faults, cloud.ServiceFault{
				API: "ElastiCache replication groups", Right: "elasticache:DescribeReplicationGroups",
				Kinds: []cloud.ServiceKind{cloud.ElastiCacheReplicationGroup}, Err: err,
			})
		}
	}
	r.book.caches.mu.Lock()
	defer r.book.caches.mu.Unlock()
	var questions []question
	for _, id := range r.book.caches.tags.next(slices.Sorted(maps.Keys(tagged)), askedAgain) {
		if tagged[id] {
			questions = append(questions, question{"ListTagsForResource", []string{id}, true, func(ctx context.Context, ids []string) error { return r.askCacheTags(ctx, api, ids[0]) }})
		}
	}
	if _, untold := r.askAll(ctx, questions); untold != nil {
		r.faults = append(r.faults, cloud.ServiceFault{API: cacheTagsAPI, Right: cacheTagsRight, Err: untold})
	}
	r.tagCaches()
	return nil
}

// cacheClusters reads caches, and returns the members of replication groups by the names of these.
// It notes which caches may have tags of their own, and whether their state allows reading them.
func (r *serviceReader) cacheClusters(ctx context.Context, api *elasticache.Client, tagged map[string]bool) (map[string][]int, error) {
	members := map[string][]int{}
	err := r.paged("DescribeCacheClusters", func(mark *string) (*string, error) {
		out, err := api.DescribeCacheClusters(ctx, &elasticache.DescribeCacheClustersInput{
			Marker: mark, MaxRecords: awssdk.Int32(recordsPerPage), ShowCacheNodeInfo: awssdk.Bool(true),
		})
		if err != nil {
			return nil, err
		}
		for _, x := range out.CacheClusters {
			d := description{Service: cloud.Service{ID: awssdk.ToString(x.ARN), Kind: cloud.ElastiCacheCluster, Name: awssdk.ToString(x.CacheClusterId)}}
			for _, g := range x.SecurityGroups {
				d.GroupIDs = append(d.GroupIDs, awssdk.ToString(g.SecurityGroupId))
			}
			endpoint := x.ConfigurationEndpoint
			if endpoint == nil && len(x.CacheNodes) > 0 {
				endpoint = x.CacheNodes[0].Endpoint
			}
			d.answersAt(awssdk.ToString(x.Engine), endpoint)
			if of := awssdk.ToString(x.ReplicationGroupId); of != "" {
				d.Fixed = "its security groups belong to its replication group " + cloud.Words(of) + ", which is a service of its own"
				d.cluster = strings.TrimSuffix(d.ID, "cluster:"+d.Name) + "replicationgroup:" + of
				members[of] = append(members[of], len(r.found))
				tagged[d.cluster] = false // until it is described
			} else {
				tagged[d.ID] = awssdk.ToString(x.CacheClusterStatus) == available
			}
			if err := r.add(d); err != nil {
				return nil, err
			}
		}
		return out.Marker, nil
	})
	return members, err
}

// replicationGroups reads the replication groups that caches are members of.
func (r *serviceReader) replicationGroups(ctx context.Context, api *elasticache.Client, members map[string][]int, tagged map[string]bool) error {
	return r.paged("DescribeReplicationGroups", func(mark *string) (*string, error) {
		out, err := api.DescribeReplicationGroups(ctx, &elasticache.DescribeReplicationGroupsInput{Marker: mark, MaxRecords: awssdk.Int32(recordsPerPage)})
		if err != nil {
			return nil, err
		}
		for _, x := range out.ReplicationGroups {
			d := description{Service: cloud.Service{ID: awssdk.ToString(x.ARN), Kind: cloud.ElastiCacheReplicationGroup, Name: awssdk.ToString(x.ReplicationGroupId)}}
			mine := members[d.Name]
			if len(mine) == 0 || r.found[mine[0]].cluster != d.ID {
				continue
			}
			for _, i := range mine {
				d.GroupIDs = append(d.GroupIDs, r.found[i].GroupIDs...)
			}
			slices.Sort(d.GroupIDs)
			d.GroupIDs = slices.Compact(d.GroupIDs)
			endpoint := x.ConfigurationEndpoint
			if endpoint == nil && len(x.NodeGroups) > 0 {
				endpoint = x.NodeGroups[0].PrimaryEndpoint
			}
			d.answersAt(awssdk.ToString(x.Engine), endpoint)
			tagged[d.ID] = awssdk.ToString(x.Status) == available
			if err := r.add(d); err != nil {
				return nil, err
			}
		}
		return out.Marker, nil
	})
}

// answersAt gives a cache its name for clients, and its port.
func (d *description) answersAt(engine string, at *cachetypes.Endpoint) {
	if at != nil {
		d.DNSName = awssdk.ToString(at.Address)
		d.listens(portName(engine), cloud.TCP, awssdk.ToInt32(at.Port))
	}
}

// askCacheTags asks a cache for its tags. One that has begun to change, or has gone, since it was
// described tells none.
func (r *serviceReader) askCacheTags(ctx context.Context, api *elasticache.Client, id string) error {
	out, err := api.ListTagsForResource(ctx, &elasticache.ListTagsForResourceInput{ResourceName: &id})
	if changing(err) || cloud.ClassOf(r.conn.classify("ListTagsForResource", err)) == cloud.NotFound {
		return nil
	}
	if err != nil {
		return err
	}
	d := description{}
	for _, t := range out.TagList {
		d.tag(t.Key, t.Value)
	}
	r.answers.Lock()
	defer r.answers.Unlock()
	r.book.caches.tags.put(id, d.Tags)
	return nil
}

// changing reports whether a call was refused because the cache is being changed.
func changing(err error) bool {
	var cluster *cachetypes.InvalidCacheClusterStateFault
	var group *cachetypes.InvalidReplicationGroupStateFault
	return errors.As(err, &cluster) || errors.As(err, &group)
}

// tagCaches gives the caches their tags, as far as they are known. A member of a replication group
// has the owner's tags of the whole; a record of ours among them is not its own.
func (r *serviceReader) tagCaches() {
	for i := range r.found {
		d := &r.found[i]
		if d.cluster == "" {
			tags, told := r.book.caches.tags.get(d.ID)
			if d.Tags = tags; !told {
				d.unknown()
			}
			continue
		}
		tags, told := r.book.caches.tags.get(d.cluster)
		d.Tags, d.untold = maps.Clone(tags), !told
		maps.DeleteFunc(d.Tags, func(k, _ string) bool { return strings.HasPrefix(k, formerPrefix) })
	}
}

func (s setting) elastiCache() *elasticache.Client {
	return elasticache.NewFromConfig(s.conn.Base, func(o *elasticache.Options) { o.Region = s.conn.Region })
}

// setCache gives a cache the groups, which ElastiCache does at once. ApplyImmediately would apply,
// too, what the owner has put off to the next maintenance window; see setDatabase.
func (s setting) setCache(ctx context.Context, name string) error {
	return s.given(ctx, "ModifyCacheCluster", func() error {
		_, err := s.elastiCache().ModifyCacheCluster(ctx, &elasticache.ModifyCacheClusterInput{CacheClusterId: awssdk.String(name), SecurityGroupIds: s.op.GroupIDs})
		return err
	})
}

// setReplicationGroup gives a replication group, and so all its members, the groups.
func (s setting) setReplicationGroup(ctx context.Context, name string) error {
	return s.given(ctx, "ModifyReplicationGroup", func() error {
		_, err := s.elastiCache().ModifyReplicationGroup(ctx, &elasticache.ModifyReplicationGroupInput{ReplicationGroupId: awssdk.String(name), SecurityGroupIds: s.op.GroupIDs})
		return err
	})
}

func (s setting) tagCache(ctx context.Context, name string) error {
	tags := tagsOf(s, func(k, v *string) cachetypes.Tag { return cachetypes.Tag{Key: k, Value: v} })
	return s.whenAvailable(ctx, "AddTagsToResource", name, func() error {
		_, err := s.elastiCache().AddTagsToResource(ctx, &elasticache.AddTagsToResourceInput{ResourceName: awssdk.String(s.op.Target), Tags: tags})
		return err
	})
}

func (s setting) untagCache(ctx context.Context, name string) error {
	return s.whenAvailable(ctx, "RemoveTagsFromResource", name, func() error {
		_, err := s.elastiCache().RemoveTagsFromResource(ctx, &elasticache.RemoveTagsFromResourceInput{ResourceName: awssdk.String(s.op.Target), TagKeys: s.keys()})
		return err
	})
}

// whenAvailable does a call about the tags of a cache once nothing is being changed, as after its
// groups were set: until then ElastiCache says that it is not there.
func (s setting) whenAvailable(ctx context.Context, call, name string, do func() error) error {
	wait, deadline := s.conn.FirstWait, s.conn.Now().Add(arriveTime)
	for {
		state, err := s.stateOfCache(ctx, name)
		if err != nil {
			return err
		}
		if state == available {
			err := s.conn.classify(call, do())
			if !changing(err) && cloud.ClassOf(err) != cloud.NotFound {
				return err
			}
		}
		if !s.conn.Now().Before(deadline) {
			return &cloud.Error{Class: cloud.Terminal, Call: call, Err: fmt.Errorf("%s is still %s after %s, and takes no tags until it is %s", s.op.Target, cloud.Words(state), arriveTime, available)}
		}
		if err := s.conn.Sleep(ctx, wait); err != nil {
			return s.conn.classify(call, err)
		}
		wait = min(2*wait, s.conn.MaxWait)
	}
}

// stateOfCache is the state of the cache or replication group that the op is about; an error of the
// class NotFound if it is not there.
func (s setting) stateOfCache(ctx context.Context, name string) (string, error) {
	if strings.HasSuffix(s.op.Target, ":replicationgroup:"+name) {
		out, err := s.elastiCache().DescribeReplicationGroups(ctx, &elasticache.DescribeReplicationGroupsInput{ReplicationGroupId: awssdk.String(name)})
		if err != nil {
			return "", s.conn.classify("DescribeReplicationGroups", err)
		}
		for _, x := range out.ReplicationGroups {
			return awssdk.ToString(x.Status), nil
		}
		return "", &cloud.Error{Class: cloud.NotFound, Call: "DescribeReplicationGroups", Err: fmt.Errorf("the replication group %s is not there", name)}
	}
	out, err := s.elastiCache().DescribeCacheClusters(ctx, &elasticache.DescribeCacheClustersInput{CacheClusterId: awssdk.String(name)})
	if err != nil {
		return "", s.conn.classify("DescribeCacheClusters", err)
	}
	for _, x := range out.CacheClusters {
		return awssdk.ToString(x.CacheClusterStatus), nil
	}
	return "", &cloud.Error{Class: cloud.NotFound, Call: "DescribeCacheClusters", Err: fmt.Errorf("the cache %s is not there", name)}
}
