// Package ec2 speaks the EC2 and STS query protocols over a world.World: it authenticates requests
// (Signature Version 4), reads their parameters, runs the action on the world and writes the answer
// in the XML of the service, with its error codes, HTTP statuses and pages. At the same door it
// speaks the JSON protocol of SQS over sqs.Queues, which events of the world are put into, and the
// protocols of native services (RDS, ElastiCache, Elastic Load Balancing, EFS, Lambda), whose
// actions package nativeapi knows.
//
// One Handler serves all accounts and regions: the access key in the credential scope of a request
// tells the account, the scope tells region and service. Beyond the protocol it can throttle like
// the service (Throttle), disturb chosen calls (Faults), wait (Latency), and it keeps a Journal of
// all calls.
//
// A Handler, and each of these parts, may be used by any number of goroutines. It starts none
// itself; a request is finished when ServeHTTP returns. What the answer of a call says has been
// true at one moment between its arrival and its answer; order between concurrent calls is that of
// the world's mutations.
package ec2
