package aptmirror

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestParse(t *testing.T) {
	tests := map[string]struct {
		targets, settings string
		want              Upstream
	}{
		"nothing": {
			want: Upstream{Archives: map[string]string{"debian": debianArchive, "debian-security": securityArchive}},
		},
		"a mirror and a proxy": {
			targets: "Debian http://mirror.test/debian/\nDebian http://other.test/debian/\n" +
				"Debian-Security https://mirror.test/security\n",
			settings: "Acquire::http::Proxy http://proxy.test:3128\n",
			want: Upstream{
				Archives: map[string]string{"debian": "http://mirror.test/debian", "debian-security": "https://mirror.test/security"},
				Proxy:    "http://proxy.test:3128",
			},
		},
		"what http cannot fetch": {
			targets:  "Debian mirror+file:/etc/apt/mirrors/\nDebian cdrom://[Debian]/\nSomebody http://third.test/\n",
			settings: "Acquire::http::Proxy::third.test DIRECT\n",
			want:     Upstream{Archives: map[string]string{"debian": debianArchive, "debian-security": securityArchive}},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, test.want, parse(test.targets, test.settings))
		})
	}
}

func TestLocate(t *testing.T) {
	upstream := parse("Debian http://mirror.test/debian/\n", "")
	source, err := upstream.locate("debian/pool/main/g/g++/g++_12~1.deb")
	require.NoError(t, err)
	assert.Equal(t, "http://mirror.test/debian/pool/main/g/g++/g++_12~1.deb", source.String())
	_, err = upstream.locate("other/x")
	assert.EqualError(t, err, `"other/x" is in no archive that is mirrored here`)
}

func TestProxy(t *testing.T) {
	request, err := http.NewRequest(http.MethodGet, "http://mirror.test/", nil)
	require.NoError(t, err)
	proxy, err := Upstream{Proxy: "DIRECT"}.proxy(request)
	require.NoError(t, err)
	assert.Nil(t, proxy)
	proxy, err = Upstream{Proxy: "http://proxy.test:3128"}.proxy(request)
	require.NoError(t, err)
	assert.Equal(t, "http://proxy.test:3128", proxy.String())
}

func TestHostUpstream(t *testing.T) {
	upstream, err := HostUpstream(t.Context())
	require.NoError(t, err)
	assert.Contains(t, upstream.Archives, "debian")
	assert.Contains(t, upstream.Archives, "debian-security")
}
