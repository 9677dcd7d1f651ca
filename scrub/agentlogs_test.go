//go:build linux

package scrub

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestSplunksHostNameIsReported(t *testing.T) {
	const why = ": state of Splunk on the builder machine: run splunk clone-prep-clear-config, or remove the line with the name"
	h, _ := tree(t, map[string]string{
		"etc/passwd": passwd,
		"opt/splunkforwarder/etc/system/local/inputs.conf":   "[default]\nhost = ip-10-0-0-1\n",
		"opt/splunkforwarder/etc/system/local/server.conf":   "[general]\nserverName=$HOSTNAME\n",
		"opt/splunk/etc/system/local/inputs.conf":            "[default]\nhost = $decideOnStartup\n",
		"opt/splunk/etc/system/local/server.conf":            "[general]\nserverName = old\n",
		"opt/splunkforwarder/etc/system/default/inputs.conf": "host = x\n",
	})
	assert.Equal(t, []string{
		"/opt/splunkforwarder/etc/system/local/inputs.conf" + why, "/opt/splunk/etc/system/local/server.conf" + why,
	}, audit(t, h, "host-names"))
}
