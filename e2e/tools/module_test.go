package tools

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestWrapperModule(t *testing.T) {
	for _, test := range []struct {
		name, upstream, version string
		want, wantErr           string
	}{
		{
			name:     "plain",
			upstream: "module example.com/plain\n\ngo 1.24.2\n\nrequire example.com/a v1.0.0\n",
			version:  "1.9.1",
			want:     "module eksnode.invalid/build\n\ngo 1.24.2\n\nrequire example.com/plain v1.9.1\n",
		},
		{
			name:     "replaced by another module",
			upstream: "module example.com/forked\n\ngo 1.24.0\n\nreplace example.com/a => example.com/b v1.13.3\n",
			version:  "1.0.0",
			want: "module eksnode.invalid/build\n\ngo 1.24.0\n\nrequire example.com/forked v1.0.0\n\n" +
				"replace example.com/a => example.com/b v1.13.3\n",
		},
		{
			name: "Kubernetes' staging folders and run-time defaults",
			upstream: "module k8s.io/kubernetes\n\ngo 1.24.0\n\nrequire k8s.io/api v0.0.0\n\ngodebug default=go1.24\n\n" +
				"replace k8s.io/api => ./staging/src/k8s.io/api\n",
			version: "1.34.4",
			want: "module eksnode.invalid/build\n\ngo 1.24.0\n\nrequire k8s.io/kubernetes v1.34.4\n\n" +
				"godebug default=go1.24\n\nreplace k8s.io/api => k8s.io/api v0.34.4\n",
		},
		{
			name: "etcd's other modules",
			upstream: "module go.etcd.io/etcd/server/v3\n\ngo 1.24.0\n\nrequire go.etcd.io/etcd/api/v3 v3.6.5\n\n" +
				"replace go.etcd.io/etcd => ../\n\nreplace go.etcd.io/etcd/api/v3 => ../api\n",
			version: "3.6.5",
			want: "module eksnode.invalid/build\n\ngo 1.24.0\n\nrequire go.etcd.io/etcd/server/v3 v3.6.5\n\n" +
				"replace go.etcd.io/etcd/api/v3 => go.etcd.io/etcd/api/v3 v3.6.5\n",
		},
		{
			name:     "replaced by an unpublished folder",
			upstream: "module example.com/odd\n\ngo 1.24.0\n\nrequire example.com/a v0.0.0\n\nreplace example.com/a => ./a\n",
			version:  "1.0.0",
			wantErr: "writing a go.mod around example.com/odd: replacing example.com/a: " +
				"the line points into upstream's tree, and no published module is known for the folder",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := wrapper("go.mod", []byte(test.upstream), test.version)
			if test.wantErr != "" {
				require.ErrorContains(t, err, test.wantErr)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, test.want, string(got))
		})
	}
}

func TestTailKeepsLastLines(t *testing.T) {
	assert.Empty(t, tail(" \n"))
	assert.Equal(t, "\nonly", tail("only\n"))
	long := strings.Repeat("x\n", 30)
	assert.Equal(t, strings.Repeat("\nx", 19)+"\nend", tail(long+"end"))
}
