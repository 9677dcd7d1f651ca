//go:build linux

package secrets

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/host/hosttest"
	"github.com/eksnode/packer-plugin-eksnode/scrub/rule"
)

// audit returns the findings of a search in a whole machine.
func audit(t *testing.T, h *host.Host) []string {
	t.Helper()
	known := &rule.Originals{}
	require.NoError(t, known.Read(t.Context(), h))
	found, err := Search{Words: NewIndex(All()), Keys: true, Known: known}.In(t.Context(), h, "/")
	require.NoError(t, err)
	var got []string
	for _, f := range found {
		got = append(got, f.Target+": "+f.Reason)
	}
	return got
}

// fill returns n characters that look random. Prefix and text of a secret are
// joined at run time, so that secret scanners do not report this file.
func fill(n int) string { return strings.Repeat("Zx7Q", n/4+1)[:n] }

// TestEveryKindOfSecretIsFound has a file for each form of each kind of secret, at
// usual paths. Findings show the kind and line, never the secret.
func TestEveryKindOfSecretIsFound(t *testing.T) {
	dashes := "-----"
	cases := []struct{ name, kind, before, secret, after string }{
		{"etc/containerd/certs.d/registry/client.key", "a private key", "", dashes + "BEGIN EC PRIVATE KEY" + dashes, "\n" + fill(60)},
		{"etc/containerd/key.toml", "a private key", "x = '''\n", dashes + "BEGIN OPENSSH PRIVATE KEY" + dashes, "\n" + fill(70) + "\n'''"},
		{"opt/app/account.json", "a private key", `{"type":"service_account","private_key":"`, dashes + "BEGIN PRIVATE KEY" + dashes + `\n` + fill(40), `"}`},
		{"srv/backup.asc", "a private key", "", dashes + "BEGIN PGP PRIVATE KEY BLOCK" + dashes, "\nVersion: 2\nComment: a build's\n\n" + fill(64)},
		{"etc/app/old.pem", "a private key", "", dashes + "BEGIN RSA PRIVATE KEY" + dashes, "\r\nProc-Type: 4,ENCRYPTED\r\nDEK-Info: AES-128-CBC,00\r\n\r\n" + fill(64)},
		{"etc/app/key.yaml", "a private key", "tls:\n  key: |\n    ", dashes + "BEGIN PRIVATE KEY" + dashes, "\n    " + fill(64)},
		{"etc/app/folded.yaml", "a private key", `key: "`, dashes + "BEGIN PRIVATE KEY" + dashes, "\\n\\\n  \\ " + fill(64)},
		{"opt/app/main.py", "a private key", `KEY = ("`, dashes + "BEGIN PRIVATE KEY" + dashes, `\n"` + "\n       \"" + fill(64)},
		{"home/gone/build.ppk", "a private key of PuTTY", "", "PuTTY-User-Key-File-3: ssh-ed25519", ""},
		{"etc/sops.txt", "a private key of age", "# created\n", "AGE-SECRET-" + "KEY-1" + strings.ToUpper(fill(58)), ""},
		{"etc/wireguard/wg0.conf", "a private key of WireGuard", "[Interface]\nPrivateKey = ", fill(43) + "=", "\n"},
		{"etc/openvpn/static.key", "a key of OpenVPN", "#\n", dashes + "BEGIN OpenVPN Static key V1" + dashes, "\n" + strings.Repeat("0a1b", 8) + "\n"},
		{"var/lib/tang/a.jwk", "a private JSON Web Key", `{"alg":"ES512",`, `"d":"` + fill(80) + `1"`, `,"kty":"EC"}`},
		{"etc/letsencrypt/accounts/x/private_key.json", "a private JSON Web Key", "{\n", `  "d": "` + fill(80) + `1"`, ",\n \"kty\": \"RSA\"}"},
		{"etc/bind/Kexample.+013+1.private", "a key of DNS", "Private-key-format: v1.3\nPrivateKey: ", fill(44), "\n"},
		{"etc/bind/rndc.key", "a key of DNS", "key \"rndc-key\" {\n\talgorithm hmac-sha256;\n\tsecret \"", fill(43) + "=", "\";\n};\n"},
		{"etc/ipsec.secrets", "a key of IPsec", "# : PSK \"no\"\n10.0.0.1 : PSK \"", fill(16), "\"\n"},
		{"etc/ipsec.d/b.secrets", "a key of IPsec", ": XAUTH 0x", fill(16), "\n"},
		{"etc/NetworkManager/system-connections/a.nmconnection", "a wireless network's key", "[wifi-security]\nkey-mgmt=wpa-psk\npsk=", fill(12), "\n"},
		{"etc/wpa_supplicant/wpa_supplicant.conf", "a wireless network's key", "network={\n  psk=\"", fill(12), "\"\n}\n"},
		{"var/lib/snmp/snmpd.conf", "a key of SNMP", "usmUser 1 3 0x80001f8880 0x6d 0x6d NULL .1.3.6 0x", strings.Repeat("0a1b", 8), " \"\"\n"},
		{"etc/snmp/snmpd.conf", "a key of SNMP", "#createUser a SHA no\ncreateUser monitor SHA ", fill(12), " AES\n"},
		{"var/lib/app/state.json", "an AWS access key", `{"AccessKeyId": "`, "AS" + "IA" + strings.ToUpper(fill(16)), `"}`},
		{"etc/profile.d/aws.sh", "an AWS access key", "export AWS_ACCESS_KEY_ID=", "AK" + "IA" + strings.ToUpper(fill(16)), "\n"},
		{"etc/app/sts.json", "an AWS secret key", `{"SecretAccessKey" : "`, fill(39) + "/", `"}`},
		{"etc/app/credentials", "an AWS secret key", "[default]\naws_secret_access_key = ", fill(40), "\n"},
		{"var/lib/app/token", "an AWS session token", "Token: ", "IQoJb3JpZ2" + "lu" + fill(200), "\n"},
		{"etc/app/session", "an AWS session token", "aws_session_token=", fill(300), "\n"},
		{"etc/docker.json", "registry credentials", `{"auths":{"https://index.docker.io/v1/":{"auth": "`, fill(20) + "==", `"}}}`},
		{"etc/app/docker.json", "registry credentials", `{"auths":{"x.azurecr.io":{"identitytoken":"`, fill(40), `"}}}`},
		{"etc/containerd/config.toml", "registry credentials", "[plugins.cri.registry.configs.\"x\".auth]\n  username = \"ci\"\n  password = \"", "hunter2" + fill(6), "\"\n"},
		{"etc/containerd/certs.d/x/hosts.toml", "credentials of an HTTP header", "[host.\"https://x\".header]\n  authorization = [\"", "Basic " + fill(24), "\"]\n"},
		{"var/lib/app/kubeconfig", "a kubeconfig's client key", "users:\n- user:\n    client-key-data: ", fill(80), "\n"},
		{"var/lib/app/kubeconfig.json", "a kubeconfig's client key", `{"users":[{"user":{"client-key-data": "`, fill(80), `"}}]}`},
		{"opt/kube/config", "a kubeconfig's token", "users:\n- user: {token: ", fill(40), "}\n"},
		{"opt/kube/config.json", "a kubeconfig's token", `{"user":{"token":"`, fill(40), `"}}`},
		{"usr/local/bin/join.sh", "a cluster's join token", "kubeadm join 10.0.0.1:6443 --token ", "ab12cd.0123456789abcdef", " --discovery\n"},
		{"var/lib/app/sa", "a signed token (JWT)", "", "ey" + "J" + fill(20) + ".ey" + "J" + fill(40) + "." + fill(40), ""},
		{"etc/app/gh", "a GitHub token", "url: ", "gh" + "p_" + fill(36), "\n"},
		{"etc/app/gh2", "a GitHub token", "url: ", "github" + "_pat_" + fill(82), "\n"},
		{"etc/app/gl", "a GitLab token", "", "gl" + "pat-" + fill(20), "\n"},
		{"etc/gitlab-runner/config.toml", "a GitLab token", "[[runners]]\n  token = \"", "gl" + "rt-" + fill(24), "\"\n"},
		{"etc/app/slack", "a Slack token", "", "xo" + "xb-" + fill(40), ""},
		{"etc/app/slack2", "a Slack token", "", "xa" + "pp-1-" + fill(40), ""},
		{"etc/app/hook", "a Slack webhook", "", "https://hooks.slack.com/services/T0" + strings.ToUpper(fill(8)) + "/B0" + strings.ToUpper(fill(8)) + "/" + fill(24), ""},
		{"etc/app/tailscale", "a Tailscale key", "--authkey=", "tskey-" + "auth-k1" + fill(10) + "-" + fill(32), "\n"},
		{"etc/grafana-agent.yaml", "a Grafana token", "password: ", "glc" + "_ey" + fill(60), "\n"},
		{"etc/app/grafana", "a Grafana token", "", "gl" + "sa_" + fill(32) + "_0a1b0a1b", "\n"},
		{"etc/app/relic", "a New Relic key", "", "NR" + "AK-" + strings.ToUpper(fill(27)), "\n"},
		{"etc/app/relic2", "a New Relic key", "key: ", strings.Repeat("0a1b", 9) + "NR" + "AL", "\n"},
		{"etc/app/stripe", "a Stripe key", "", "sk_" + "live_" + fill(24), "\n"},
		{"etc/app/sendgrid", "a SendGrid key", "", "SG" + "." + fill(22) + "." + fill(43), "\n"},
		{"etc/app/ocean", "a DigitalOcean token", "", "dop" + "_v1_" + strings.Repeat("0a1b", 16), "\n"},
		{"etc/app/sentry", "a Sentry token", "", "sntrys" + "_ey" + fill(60), "\n"},
		{"etc/app/model", "a key of a language model's service", "x: ", "sk-" + "ant-api03-" + fill(60), "\n"},
		{"etc/app/model2", "a key of a language model's service", "x: ", "hf" + "_" + strings.Repeat("aB", 17), "\n"},
		{"etc/app/google", "a Google API key", "key ", "AI" + "za" + fill(35), "\n"},
		{"etc/app/npm", "an npm token", "//registry.npmjs.org/:_authToken=", fill(36), "\n"},
		{"etc/pip.conf", "a PyPI token", "password: ", "pypi-" + "AgEIcHlwaS5vcmc" + fill(60), "\n"},
		{"etc/pip2.conf", "a password in a URL", "[global]\nindex-url = https://", "ci:" + fill(20) + "@pypi.corp", "/simple\n"},
		{"etc/app/hub", "a Docker Hub token", "", "dckr" + "_pat_" + fill(27), ""},
		{"etc/app/vault", "a Vault token", "", "hv" + "s." + fill(90), ""},
		{"etc/app/tfc", "a HCP Terraform token", "x ", fill(14) + ".atlas" + "v1." + fill(60), "\n"},
		{"etc/app/azure", "an Azure storage key", "DefaultEndpointsProtocol=https;AccountKey=", fill(86) + "==", ";\n"},
		{"etc/datadog-agent/datadog.yaml", "an API key", "site: x\napi_key: ", strings.Repeat("0a1b", 8), "\n"},
		{"etc/newrelic-infra.yml", "an API key", "license_key: ", strings.Repeat("0a1b", 10), "\n"},
		{"etc/systemd/system/app.service", "credentials of an HTTP header", "[Service]\nExecStart=/usr/bin/curl -H 'Authorization: Bearer ", fill(32), "' https://x\n"},
		{"etc/app/bearer", "credentials of an HTTP header", "use bearer ", fill(32), "\n"},
		{"etc/app/netrc", "a password of netrc", "machine git.corp login ci password ", fill(9), "\n"},
		{"etc/apt/auth.conf.d/90pro.conf", "a password of netrc", "machine esm.ubuntu.com\nlogin bearer\npassword ", fill(30), "\n"},
		{"etc/mysql/debian.cnf", "a password", "[client]\nuser = x\npassword = ", "abc" + fill(9), "\n"},
		{"etc/zypp/credentials.d/SCCcredentials", "a password", "username=SCC_1\npassword=", "ab12" + fill(28), "\n"},
		{"etc/cloud/cloud.cfg.d/99.cfg", "a password's hash", "users:\n- passwd: ", "$6$" + fill(8) + "$" + fill(86), "\n"},
		{"etc/shadow", "a password's hash", "root:*:1::::::\nbuild:", "$y$j9T$" + fill(22) + "$" + fill(43), ":19000:0:99999:7:::\n"},
		{"etc/systemd/system/app.service.d/env.conf", "a secret of an environment", "[Service]\nEnvironment=\"DB_PASSWORD=", fill(12), "\"\n"},
		{"usr/lib/systemd/system/own.service", "a secret of an environment", "[Service]\nEnvironment=X_TOKEN=", fill(16), "\n"},
		{"etc/default/app", "a secret of an environment", "# x\nexport API_KEY='", fill(12), "'\n"},
		{"opt/app/.env", "a secret of an environment", "APP_SECRET=", fill(24), "\n"},
		{"etc/environment", "a secret of an environment", "PATH=/bin\nGH_TOKEN=", fill(24), "\n"},
		{"root/.bashrc", "a secret of an environment", "export VAULT_TOKEN=", fill(24), "\n"},
		{"opt/infra/db.tf", "a password of Terraform", "resource \"x\" \"y\" {\n  admin_password = \"", fill(16), "\"\n}\n"},
		{"local/0/kubelet/kubeconfig", "a kubeconfig of one cluster", "clusters:\n- cluster:\n    ", "server: https://old.corp:6443", "\n  name: x\nusers: []\n"},
		{"usr/local/bin/fetch", "a password of a command", "", "curl", " -fsS \\\n  -u 'ci:" + fill(12) + "' \\\n  https://x/\n"},
		{"usr/local/bin/fetch2", "a password of a command", "\n", "curl", " --user=ci:" + fill(12) + " https://x/\n"},
		{"usr/local/bin/fetch3", "credentials of an HTTP header", "curl -H \"", "X-Api-Key: " + fill(32), "\" https://x/\n"},
		{"opt/kube/written.yaml", "a Secret of Kubernetes", "apiVersion: v1\n", "kind: Secret", "\nmetadata:\n  name: x\nstringData:\n  a: b\n  pass: >-\n    " + fill(12) + "\n"},
		{"opt/kube/printed.yaml", "a Secret of Kubernetes", "items:\n- apiVersion: v1\n  ", "data:", "\n    a: eA==\n    pass: " + fill(12) + "\n  kind: Secret\n"},
		{"opt/kube/printed.json", "a Secret of Kubernetes", "{\n  \"apiVersion\": \"v1\",\n  ", `"data": {`, "\n    \"pass\": \"" + fill(12) + "\"\n  },\n  \"kind\": \"Secret\",\n"},
	}
	files := map[string]string{}
	var want []string
	for _, c := range cases {
		files[c.name] = c.before + c.secret + c.after
		want = append(want, fmt.Sprintf("/%s: line %d contains %s", c.name, strings.Count(c.before, "\n")+1, c.kind))
	}
	files["srv/node.p12"] = "\x30\x00"
	want = append(want, "/srv/node.p12: the file is a PKCS #12 key store")
	h := hosttest.Root(t, files)
	got := audit(t, h)
	for _, w := range want {
		assert.Contains(t, got, w)
	}
	for _, c := range cases {
		for line := range strings.Lines(c.secret) {
			assert.NotContains(t, strings.Join(got, "\n"), strings.TrimSpace(line))
		}
	}
	for _, p := range secretPatterns {
		assert.True(t, p.Re == nil || slices.ContainsFunc(cases, func(c struct{ name, kind, before, secret, after string }) bool { return c.kind == p.Kind }), "%s has no file in this test", p.Kind)
	}
}

// File names, variables, placeholders, examples and locked password hashes are
// common in configuration and manuals. They are no secrets.
func TestPlaceholdersAndExamplesAreNoSecrets(t *testing.T) {
	h := hosttest.Root(t, map[string]string{

		"etc/shadow": "root:*:19000:0:99999:7:::\ndaemon:!:19000::::::\nadmin:!!:19000::::::\nnobody:!*:1::::::\n",
		"etc/default/app": `# PASSWORD=see-manual-1
API_TOKEN=$(cat /run/token1)
DB_PASSWORD=${DB_PASSWORD_1}
TOKEN_FILE=/run/secrets/token1
SECRET=/etc/app/secret1.pem
APP_SECRET="%{secret1}"
TOKEN_TTL=3600000001
PASSWORD=<password1>
PASSWORD=
`,
		"etc/systemd/system/app.service": "[Service]\nEnvironmentFile=/etc/default/app\nLoadCredential=token:/etc/app/token1\nEnvironment=PASSWORD_STORE_DIR=/var/lib/pass1word\n",
		"etc/app/manual":                 "Authorization: Bearer TOKEN\nbearer authentication-is-supported-here\nauth: basic\npassword: see above\nhttps://user:password@example.org/\nhttp://proxy:8080/\n",
		"etc/app/aws":                    "AWS_SECRET_ACCESS_KEY=" + "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY" + "\naws_secret_access_key = <your key>\n",
		"etc/kubernetes/kubelet.yaml":    "token: \"\"\ntokenRef: some-long-name-of-a-secret\nclient-key: /var/lib/kubelet/pki/kubelet.pem\n",
		"etc/containerd/config.toml":     "[plugins.x.registry]\n  config_path = \"/etc/containerd/certs.d\"\n  auth = \"\"\n",
		"etc/mysql/my.cnf":               "[client]\n#password = x\n# password\t= your_password\nport = 3306\n",
		"etc/pam.d/common-password":      "password\t[success=1 default=ignore]\tpam_unix.so obscure yescrypt\npassword requisite pam_deny.so\n",
		"etc/login.defs":                 "ENCRYPT_METHOD YESCRYPT\nPASS_MAX_DAYS 99999\n",
		"etc/ssl/openssl.cnf":            "[ req ]\n# input_password = secret\nchallengePassword = A challenge password\n",
		"opt/app/secrets.yaml":           "kind: SecretStore\ndata:\n  name: longername1\n---\nkind: Secret\nmetadata:\n  name: longername12\n---\nkind: ConfigMap\ndata:\n  name: longername123\n",
		"boot/grub/i386-pc/command.lst":  "legacy_password: legacycfg\npassword: password\npassword_pbkdf2: password_pbkdf2\n",
		"opt/app/vars.tf":                "  password = var.password_of_db1\n  admin_password = \"${var.password1}\"\n",
		"opt/app/services.yaml":          "datadog-agent:\n  image: datadog/agent:7.52.0-jmx\nsonar_sha256: " + strings.Repeat("0a1b", 16) + "\nglobal_version_of_all: 12345678901234\nsentry_url: https://sentry.corp.example/1\nmapbox_token_file: /run/secrets/mapbox1\n",
		"usr/local/bin/run.sh":           "docker run -u 1000:1000 x\ncurl -u \"$CI_USER:$CI_PASSWORD\" https://x/\ncurl -H \"X-Api-Key: $KEY1\" https://x/\n",
		"usr/local/bin/x.sh":             "TOKEN=\"$1\"\nPASSWORD=`pass show x1`\ncurl -H \"Authorization: Bearer $TOKEN\"\n",
	})
	assert.Empty(t, audit(t, h))
}

// Programs that read keys contain the first line of a key. Documentation has
// example keys and passwords.
func TestProgramsAndDocumentationHaveNoSecrets(t *testing.T) {
	dashes := "-----"
	key := dashes + "BEGIN RSA PRIVATE KEY" + dashes + "\n" + fill(64) + "\n"
	files := map[string]string{

		"opt/app/keys.py": `MARKER = ("` + dashes + `BEGIN RSA PRIVATE KEY` + dashes + `",
          "-----END RSA PRIVATE KEY-----")
    if line == '` + dashes + `BEGIN PRIVATE KEY` + dashes + `':
        raise ValueErrorWithAVeryLongNameThatIsNoKeyAtAll1234
data = {"token": session.access_token}
def check(self, token: tokenize.TokenInfo): ...
`,
		"opt/app/README":    "-e http_proxy=http://user:pass@proxy:3128 or https://username:password@host:80/, http://User:Pass@www\n",
		"opt/app/session":   `{"SessionToken": "` + fill(60) + "EXAMPLE" + fill(60) + `"}`,
		"opt/app/key.magic": "0 string " + dashes + "BEGIN PRIVATE KEY" + dashes + " PEM\n",
	}
	for _, folder := range []string{
		"usr/local/lib/python3.12/test", "opt/venv/lib64/python3.9/site-packages/pip", "usr/local/lib/node_modules/npm", "usr/local/aws-cli/v2/2.15.0/dist/awscli/examples/iot",
		"var/lib/gems/3.1.0", "usr/local/lib/ruby/3.3.0", "usr/local/share/perl/5.36.0", "home/gone/go/pkg/mod/x@v1", "home/gone/.cargo/registry/src", "usr/local/share/doc/x", "opt/x/share/man", "opt/google-cloud-sdk/lib",
	} {
		files[folder+"/key.pem"] = key
	}
	h := hosttest.Root(t, files)
	assert.Empty(t, audit(t, h))
	h = hosttest.Root(t, map[string]string{"opt/gems.d/key": key, "opt/lib/pythonic/key": key, "opt/doc/key": key, "opt/share/docs/key": key})
	assert.Len(t, audit(t, h), 4)
}

// Large files are searched to their end.
func TestLargeFilesAreSearched(t *testing.T) {
	key := "AK" + "IA" + strings.ToUpper(fill(16))
	lines := strings.Repeat("a line of a long file without anything\n", 100_000)
	h := hosttest.Root(t, map[string]string{
		"opt/dump.sql": lines + key + "\n", "opt/one-line": strings.ReplaceAll(lines, "\n", " ") + " " + key,
		"opt/database": lines + lines + lines + key,
	})
	assert.ElementsMatch(t, []string{
		"/opt/dump.sql: line 100001 contains an AWS access key", "/opt/one-line: line 1 contains an AWS access key",
		"/opt/database: line 300001 contains an AWS access key",
	}, audit(t, h))
}
