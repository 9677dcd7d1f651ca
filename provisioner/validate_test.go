package provisioner

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/distros"
	"github.com/eksnode/packer-plugin-eksnode/internal/asset"
)

func TestAcceptedSpecs(t *testing.T) {
	for name, spec := range map[string]Spec{
		"the least":              {KubernetesVersion: "1.34.4"},
		"the oldest, the newest": {KubernetesVersion: "1.24.0"},
		"a pre-release":          {KubernetesVersion: "1.37.0-rc.1"},
		"everything": {
			Distro: "debian", KubernetesVersion: "1.34.4", SourceURL: "https://me:secret@mirror.example:8443/a/b",
			Versions:  map[string]string{"cni-plugins": "1.6.2", "ecr-credential-provider": "1.31.7"},
			Checksums: map[string]string{"kubelet": strings.Repeat("aB", 32)},
			Packages:  []string{"chrony", "libstdc++6", "NetworkManager", "python3.11"},
			Sysctls:   map[string]string{"vm.max_map_count": "262144", "net.ipv4.conf.eth0/100.rp_filter": "2", "kernel.core_pattern": "|/bin/false %p"},
		},
	} {
		t.Run(name, func(t *testing.T) { require.NoError(t, spec.Validate()) })
	}
}

func TestRefusedSpecs(t *testing.T) {
	ok := "1.34.4"
	assets := "known are " + strings.Join(asset.IDs(), ", ")
	known := strings.Join(distros.IDs(), ", ")
	tests := map[string]struct {
		spec Spec
		err  string
	}{
		"nothing":               {Spec{}, `kubernetes_version is missing; set a complete version, such as 1.36.3`},
		"a v":                   {Spec{KubernetesVersion: "v1.34.4"}, `kubernetes_version "v1.34.4" must be written without the "v"`},
		"a minor only":          {Spec{KubernetesVersion: "1.34"}, `kubernetes_version "1.34" must be complete, such as "1.36.3"; nothing is resolved to "latest"`},
		"latest":                {Spec{KubernetesVersion: "latest"}, `kubernetes_version "latest" must be complete, such as "1.36.3"; nothing is resolved to "latest"`},
		"too old":               {Spec{KubernetesVersion: "1.23.17"}, `kubernetes_version "1.23.17" is not supported; supported are 1.24 to 1.37`},
		"too new":               {Spec{KubernetesVersion: "1.38.0"}, `kubernetes_version "1.38.0" is not supported; supported are 1.24 to 1.37`},
		"another major":         {Spec{KubernetesVersion: "2.30.0"}, `kubernetes_version "2.30.0" is not supported; supported are 1.24 to 1.37`},
		"a minor beyond count":  {Spec{KubernetesVersion: "1.99999999999999999999.0"}, `kubernetes_version "1.99999999999999999999.0" is not supported; supported are 1.24 to 1.37`},
		"an unknown distro":     {Spec{KubernetesVersion: ok, Distro: "debain"}, `distro "debain" is not known; known are ` + known + `; did you mean debian?`},
		"Alpine":                {Spec{KubernetesVersion: ok, Distro: "alpine"}, `distro "alpine": Alpine Linux cannot be provisioned: Alpine starts with OpenRC, and the kubelet needs systemd and its cgroups; choose one of the supported distributions; containers on the node can still use Alpine`},
		"risk without a mirror": {Spec{KubernetesVersion: ok, AllowHTTP: true}, `allow_http has no effect unless source_url begins with http://`},
		"risk with TLS":         {Spec{KubernetesVersion: ok, AllowHTTP: true, SourceURL: "https://mirror.example"}, `allow_http has no effect unless source_url begins with http://`},
		"another's file":        {Spec{KubernetesVersion: ok, SourceURL: "file://nas/mirror"}, `source_url "file://nas/mirror" must begin with http:// or https:// and a host, or with file:// and an absolute path`},
		"a path":                {Spec{KubernetesVersion: ok, SourceURL: "mirror.example/a"}, `source_url "mirror.example/a" must begin with http:// or https:// and a host, or with file:// and an absolute path`},
		"a query, with a password that stays secret": {Spec{KubernetesVersion: ok, SourceURL: "https://me:secret@mirror.example/?a=b"},
			`source_url "https://me:xxxxx@mirror.example/?a=b" must not have a query or a fragment: eksnode appends the assets' paths`},
		"an invalid address":            {Spec{KubernetesVersion: ok, SourceURL: "https://me:se%cret@x"}, `source_url cannot be read as an address; allowed is http:// or https://, a host, and a path`},
		"a version of an unknown asset": {Spec{KubernetesVersion: ok, Versions: map[string]string{"helm": "1.1.0"}}, `versions["helm"]: there is no such asset; ` + assets},
		"a version of the kubelet":      {Spec{KubernetesVersion: ok, Versions: map[string]string{"kubelet": ok}}, `versions["kubelet"]: kubernetes_version sets this version`},
		"a version that is not complete": {Spec{KubernetesVersion: ok, Versions: map[string]string{"cni-plugins": "v1.6"}},
			`versions["cni-plugins"] = "v1.6" must be complete and without "v", such as "1.10.0"`},
		"a sum of an unknown asset": {Spec{KubernetesVersion: ok, Checksums: map[string]string{"helm": strings.Repeat("a", 64)}}, `checksums["helm"]: there is no such asset; ` + assets},
		"a short sum":               {Spec{KubernetesVersion: ok, Checksums: map[string]string{"kubelet": "abc"}}, `checksums["kubelet"] = "abc" must be a SHA-256: 64 hexadecimal digits`},
		"an option as a package":    {Spec{KubernetesVersion: ok, Packages: []string{"-o=x"}}, `packages: "-o=x" is not a package's name; allowed are letters, digits and + . _ -, beginning with a letter or digit`},
		"two packages in one":       {Spec{KubernetesVersion: ok, Packages: []string{"a b"}}, `packages: "a b" is not a package's name; allowed are letters, digits and + . _ -, beginning with a letter or digit`},
		"a sysctl as a path":        {Spec{KubernetesVersion: ok, Sysctls: map[string]string{"/proc/sys/vm": "1"}}, `sysctls["/proc/sys/vm"] is not a sysctl's name; write it with dots, such as net.ipv4.ip_forward`},
		"a sysctl that leads out":   {Spec{KubernetesVersion: ok, Sysctls: map[string]string{"a.//.//.b": "1"}}, `sysctls["a.//.//.b"] is not a sysctl's name; write it with dots, such as net.ipv4.ip_forward`},
		"a sysctl without a value":  {Spec{KubernetesVersion: ok, Sysctls: map[string]string{"vm.swappiness": " "}}, `sysctls["vm.swappiness"] = " " must be one non-empty line`},
		"a second line":             {Spec{KubernetesVersion: ok, Sysctls: map[string]string{"vm.swappiness": "1\nkernel.panic = 0"}}, `sysctls["vm.swappiness"] = "1\nkernel.panic = 0" must be one non-empty line`},
		"a version of what is not needed": {Spec{KubernetesVersion: "1.26.15", Versions: map[string]string{"ecr-credential-provider": "1.31.7"}},
			`versions["ecr-credential-provider"] has no effect: kubelets before 1.27 do not use this asset, and kubernetes_version is "1.26.15"`},
		"a sum of what is not needed": {Spec{KubernetesVersion: "1.26.15", Checksums: map[string]string{"ecr-credential-provider": strings.Repeat("a", 64)}},
			`checksums["ecr-credential-provider"] has no effect: kubelets before 1.27 do not use this asset, and kubernetes_version is "1.26.15"`},
		"all at once, in order": {
			Spec{Distro: "x", SourceURL: "x", Packages: []string{"?"}, Sysctls: map[string]string{"x": "1"}, Versions: map[string]string{"b": "1", "a": "1"}, Checksums: map[string]string{"c": "1"}},
			`distro "x" is not known; known are ` + known + `
kubernetes_version is missing; set a complete version, such as 1.36.3
source_url "x" must begin with http:// or https:// and a host, or with file:// and an absolute path
versions["a"]: there is no such asset; ` + assets + `
versions["b"]: there is no such asset; ` + assets + `
checksums["c"]: there is no such asset; ` + assets + `
packages: "?" is not a package's name; allowed are letters, digits and + . _ -, beginning with a letter or digit
sysctls["x"] is not a sysctl's name; write it with dots, such as net.ipv4.ip_forward`,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) { require.EqualError(t, test.spec.Validate(), test.err) })
	}
}
