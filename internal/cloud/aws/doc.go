// Package aws is the adapter between the port of package cloud and AWS: EC2 for networks,
// interfaces and security groups, STS for our own identity.
//
// It owns the credentials of one account, where requests may go and with which identity (reach.go,
// identity.go), and the handling of the cloud's manners: pages, eventual consistency, answers that
// were lost. Its parts translate values (values), classify every error (failure, nowhere else),
// bound what is taken of an answer and of an account (bounds), read events (event), and read and
// set native services (native). It promises that Observe returns all of a region or an error, and
// that Apply of the same op twice does no more than once.
//
// Concurrency: a Provider may be used from any number of goroutines. It keeps no state of the
// cloud; what it remembers is credentials, the account number they belong to, one client per
// region, and for some seconds which groups it has just created, so that "not found" can be told
// from "not visible yet".
//
// # What a service must do to be an EC2
//
// The wire is the Query protocol of EC2 (2016-11-15) and STS (2011-06-15) with Signature Version 4,
// and answers with a Date. An attempt takes at most 30 seconds, a call 4 attempts, an answer 64 MB.
// Redirects are not followed. Relied on are:
//
//   - Pages: MaxResults is 1000 (100 for prefix lists); an answer with NextToken is continued. An
//     unknown filter is an error; *, ? and \ in values are escaped.
//   - A group's rules count for every interface that holds it; groups add up; a group as a peer
//     means the private addresses of its holders, in the VPC and over active peerings.
//   - A rule is identified by direction, protocol, range and peer. Authorize and Revoke take all
//     rules of a call or none. Rule ids stay over ModifySecurityGroupRules.
//   - A new group has its tags at once; its name is unique in the VPC (InvalidGroup.Duplicate); a
//     group in use cannot be deleted (DependencyViolation).
//   - Up to 50 tags an object, of 128 and 256 characters.
//   - Calls may be repeated at any time. What was created within 20 seconds may be "not found".
//
// Of an error the code decides, and the HTTP status only for unknown codes. Suffixes .NotFound,
// .Unknown, .Duplicate, .InUse, LimitExceeded and the prefix Throttl are understood; Retry-After is
// obeyed. After a conflict or NotFound the region is read again. Quota and Auth are reported in the
// status. After Unavailable, 5xx and no answer it is unknown whether the call took effect.
package aws
