//go:build linux

package scrub

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// What no program can repair is a finding.
func TestMixedProfilesAreFindings(t *testing.T) {
	files := map[string]string{}
	for _, c := range found()["network-addresses"] {
		for name, text := range c.Files {
			if strings.HasPrefix(name, "etc/netplan/") || strings.HasPrefix(name, "etc/network/") {
				files[name] = text
			}
		}
	}
	h, _ := tree(t, files)
	answer, err := look(t, "network-addresses", h)
	require.NoError(t, err)
	said := map[string]string{}
	for _, f := range answer.Findings {
		said[f.Target] = f.Reason
	}
	damaged := said["/etc/netplan/04-damaged.yaml"]
	delete(said, "/etc/netplan/04-damaged.yaml")
	assert.Contains(t, damaged, "is not readable as a netplan file (yaml: ")
	assert.Contains(t, damaged, "): repair or remove the file")
	assert.Equal(t, map[string]string{
		"/etc/netplan/03-mixed.yaml":     "has a fixed network address, which only one machine can have: remove the card's address from the file; other parts of the file may be for every machine",
		"/etc/network/interfaces":        "has a fixed network address, which only one machine can have: use dhcp for this interface",
		"/etc/network/interfaces.d/eth0": "is for one network card, by its hardware address: remove the line hwaddress",
	}, said)
}
