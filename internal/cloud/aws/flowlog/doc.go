// Package flowlog reads VPC flow logs of AWS: text with a header, as files in S3 have it, text in
// the default format without one, as CloudWatch exports it, both also compressed by gzip, and
// Parquet.
//
// It owns the format
// (https://docs.aws.amazon.com/vpc/latest/userguide/flow-log-records.html) and nothing else: fields
// are found by name and never by place, and fields of later versions are passed over. It promises
// that a bad line costs that line only, that every line left out is counted with the reason, and
// that memory is bounded whatever a file holds.
//
// Functions may be called by many goroutines at once.
package flowlog
