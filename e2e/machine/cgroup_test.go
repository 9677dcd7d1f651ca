package machine

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestOwnGroup(t *testing.T) {
	const (
		unified = "0::/user.slice/session-1.scope\n"
		hybrid  = "9:name=systemd:/init\n8:pids:/\n0::/a\n"
	)
	tests := map[string]struct {
		table, fsType, options string
		want                   string
		found                  bool
	}{
		"unified":                       {unified, "cgroup2", "rw", "/user.slice/session-1.scope", true},
		"hybrid, unified":               {hybrid, "cgroup2", "rw", "/a", true},
		"hybrid, systemd":               {hybrid, "cgroup", "rw,xattr,name=systemd", "/init", true},
		"a controller":                  {hybrid, "cgroup", "rw,pids", "/", true},
		"another controller":            {hybrid, "cgroup", "rw,memory", "", false},
		"another name":                  {hybrid, "cgroup", "rw,name=systemd2", "", false},
		"systemd, but not in the table": {unified, "cgroup", "name=systemd", "", false},
		"legacy only":                   {"9:name=systemd:/\n", "cgroup2", "rw", "", false},
		"another file system":           {hybrid, "tmpfs", "rw", "", false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			path, found := ownGroup(test.table, test.fsType, test.options)
			assert.Equal(t, test.want, path)
			assert.Equal(t, test.found, found)
		})
	}
}
