package aws

import "testing"

// TestQueueRegion: the region of a queue is the one that is named, else that of its URL.
func TestQueueRegion(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{
		"https://sqs.eu-west-3.amazonaws.com/111122223333/q":     "eu-west-3",
		"https://eu-west-3.queue.amazonaws.com/111122223333/q":   "eu-west-3",
		"https://sqs.cn-north-1.amazonaws.com.cn/111122223333/q": "cn-north-1",
		"http://127.0.0.1:8555/111122223333/q":                   "otherwise",
		"https://queue.example.com/q":                            "otherwise",
	} {
		if got := (Queue{URL: url}).region("otherwise"); got != want {
			t.Errorf("%s: %s; want %s", url, got, want)
		}
	}
	if got := (Queue{URL: "https://sqs.eu-west-3.amazonaws.com/1/q", Region: "us-east-1"}).region("x"); got != "us-east-1" {
		t.Error(got)
	}
	for _, bad := range []string{"", "ftp://x/y", "/only/a/path", "https://"} {
		if (reach{}).checkQueue(bad) == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
}
