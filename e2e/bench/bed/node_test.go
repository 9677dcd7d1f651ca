package bed

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestCountSessions(t *testing.T) {
	log := `Server listening on 0.0.0.0 port 22.
Connection from 10.77.0.1 port 4101 on 10.77.1.1 port 22 rdomain ""
Accepted key ED25519 SHA256:x found at /home/admin/.ssh/authorized_keys:1
Starting session: command for admin from 10.77.0.1 port 4101 id 0
Close session: user admin from 10.77.0.1 port 4101 id 0
Starting session: command for admin from 10.77.0.1 port 4101 id 0
Starting session: subsystem 'sftp' for admin from 10.77.0.1 port 4102 id 1
Starting session: command for admin from 10.77.0.1 port 41010 id 0
`
	for _, test := range []struct {
		ports []int
		want  int
	}{{[]int{4101}, 2}, {[]int{4102, 4101}, 3}, {[]int{410}, 0}, {nil, 0}} {
		assert.Equal(t, test.want, countSessions(log, test.ports), test.ports)
	}
}
