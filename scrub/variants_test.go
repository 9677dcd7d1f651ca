//go:build linux

package scrub

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/ulikunitz/xz"

	"github.com/eksnode/packer-plugin-eksnode/host/hosttest"
)

// variant is a file with a secret, as programs and people leave it on machines.
type variant struct{ name, text string }

const dashes = "-----"

func pemKey(kind string) string {
	return dashes + "BEGIN " + kind + dashes + "\n" + fill(64) + "\n" + fill(64) + "\n" + dashes + "END " + kind + dashes + "\n"
}

// variants are forms of secrets in files of programs, from the programs' own
// documentation. They are built at run time, so that secret scanners do not
// report this file.
func variants() []variant {
	low := strings.ToLower
	id := "0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9"
	hex := func(n int) string { return strings.Repeat("0a1b2c3d", n/8+1)[:n] }
	pass := "S3" + "cure" + "Pw9x"
	jwt := "ey" + "JhbGciOiJSUzI1NiJ9.ey" + "JzdWIiOiJzeXN0ZW0ifQ." + fill(60)
	return []variant{
		{"home/ops/old/.pgpass", "db.corp:5432:app:admin:" + pass + "\n"},
		{"opt/backup/pgpass.conf", "*:*:*:postgres:" + pass + "\n"},
		{"opt/x/.netrc", "machine api.corp\n  login ci\n  password " + pass + "\n"},
		{"srv/netrc.bak", "machine api.corp login ci password " + pass + "\n"},
		{"home/ops/.git-credentials", "https://ci:" + pass + "@git.example.com\n"},
		{"opt/x/.npmrc", "//registry.corp/:_auth=" + fill(24) + "\n"},
		{"opt/y/.npmrc", "//registry.corp/:_password=" + fill(24) + "\n"},
		{"opt/x/.pypirc", "[pypi]\nusername = ci\npassword = " + pass + "\n"},
		{"home/ops/.docker/config.json", `{"auths":{"registry.corp":{"auth":"` + fill(24) + `"}}}`},
		{"var/lib/jenkins/.docker/config.json", "{\n\t\"auths\": {\n\t\t\"1.dkr.ecr.eu-west-1.amazonaws.com\": {\n\t\t\t\"auth\": \"" + base64.StdEncoding.EncodeToString([]byte("AWS:eyJwYXlsb2FkIjoi"+fill(200))) + "\"\n\t\t}\n\t}\n}"},
		{"home/ops/.dockercfg", `{"https://registry.corp":{"username":"ci","password":"` + pass + `","email":"a@b.c"}}`},
		{"opt/infra/terraform.tfstate", `{"resources":[{"type":"aws_db_instance","instances":[{"attributes":{"username":"a","password":"` + pass + `"}}]}]}`},
		{"home/ops/.terraform.d/credentials.tfrc.json", `{"credentials":{"app.terraform.io":{"token":"` + fill(14) + ".atlas" + "v1." + fill(60) + `"}}}`},
		{"home/ops/.terraformrc", "credentials \"tf.corp\" {\n  token = \"" + fill(40) + "\"\n}\n"},
		{"opt/infra/prod.auto.tfvars", "db_password = \"" + pass + "\"\n"},
		{"etc/systemd/system/a.service", "[Service]\nSetCredential=token:" + pass + "\n"},
		{"boot/loader/entries/a.conf", "options root=/dev/sda1 systemd.set_credential=passwd.x:" + pass + "\n"},
		{"etc/credstore/db", pass},
		{"opt/az/sp.json", `{"appId":"` + id + `","password":"` + fill(3) + "8Q~" + fill(34) + `"}`},
		{"opt/az/env", "AZURE_STORAGE_KEY=" + fill(86) + "==\n"},
		{"opt/az/sas", "https://a.blob.core.windows.net/c?sv=2022&sig=" + fill(40) + "%3D&se=2030\n"},
		{"opt/az/bus", "Endpoint=sb://x.servicebus.windows.net/;SharedAccessKeyName=Root;SharedAccessKey=" + fill(43) + "=\n"},
		{"home/ops/.azure/accessTokens.json", `[{"tokenType":"Bearer","refreshToken":"` + fill(80) + `","accessToken":"` + jwt + `"}]`},
		{"opt/gcp/sa.json", `{"type":"service_account","private_key_id":"` + hex(40) + `","private_key":"` + strings.ReplaceAll(pemKey("PRIVATE KEY"), "\n", `\n`) + `"}`},
		{"home/ops/.config/gcloud/application_default_credentials.json", `{"client_secret":"d-` + fill(22) + `","refresh_token":"1/` + "/0e" + fill(60) + `","type":"authorized_user"}`},
		{"opt/pd/config.yml", "pagerduty_configs:\n- routing_key: " + hex(32) + "\n"},
		{"opt/pd/env.sh", "curl -H 'Authorization: Token token=" + fill(20) + "' https://api.pagerduty.com\n"},
		{"opt/discord/hook", "https://discord.com/api/webhooks/123456789012345678/" + fill(68) + "\n"},
		{"opt/teams/hook", "https://corp.webhook.office.com/webhookb2/" + id + "@" + id + "/IncomingWebhook/" + hex(32) + "/" + id + "\n"},
		{"opt/slack/hook", "https://hooks.slack.com/services/T0" + strings.ToUpper(fill(8)) + "/B0" + strings.ToUpper(fill(8)) + "/" + fill(24) + "\n"},
		{"root/x/.vault-token", "hv" + "s." + fill(90)},
		{"home/ops/.vault-token", "s" + "." + fill(24)},
		{"opt/vault/init.txt", "Unseal Key 1: " + fill(44) + "\n\nInitial Root Token: hv" + "s." + fill(24) + "\n"},
		{"opt/gh/hosts.yml", "github.com:\n    oauth_token: gh" + "o_" + fill(36) + "\n"},
		{"opt/gl/config", "token: gl" + "pat-" + fill(20) + "\n"},
		{"opt/bb/env", "BITBUCKET_APP_PASSWORD=ATBB" + fill(32) + "\n"},
		{"opt/x/npm", "npm" + "_" + fill(36) + "\n"},
		{"opt/x/pypi", "pypi-" + "AgEIcHlwaS5vcmc" + fill(60) + "\n"},
		{"opt/x/hub", "dckr" + "_pat_" + fill(27) + "\n"},
		{"etc/dd.env", "DD_API_KEY=" + hex(32) + "\n"},
		{"opt/nr.yml", "license_key: " + hex(36) + "NR" + "AL\n"},
		{"opt/twilio.env", "TWILIO_AUTH_TOKEN=" + hex(32) + "\n"},
		{"opt/twilio.json", `{"sid":"SK` + hex(32) + `"}`},
		{"opt/sendgrid", "SG" + "." + fill(22) + "." + fill(43) + "\n"},
		{"opt/stripe", "rk_" + "live_" + fill(24) + "\n"},
		{"opt/stripe2", "whsec" + "_" + fill(32) + "\n"},
		{"opt/openai", "sk-" + "proj-" + fill(60) + "\n"},
		{"opt/anthropic", "sk-" + "ant-api03-" + fill(90) + "\n"},
		{"opt/kube/token", jwt},
		{"opt/kube/admin.conf", "users:\n- name: a\n  user:\n    client-key-data: " + fill(200) + "\n"},
		{"opt/kube/kubeconfig", "users:\n- name: a\n  user:\n    token: " + fill(40) + "\n"},
		{"opt/join.sh", "kubeadm join 10.0.0.1:6443 --token abcdef.0123456789abcdef --discovery-token-ca-cert-hash sha256:" + hex(64) + "\n"},
		{"opt/join2.sh", "kubeadm join 10.0.0.1:6443 --control-plane --certificate-key " + hex(64) + "\n"},
		{"var/lib/rancher/token", "K10" + hex(64) + "::server:" + hex(32) + "\n"},
		{"usr/local/bin/a.sh", "curl -u ci:" + pass + " https://x\n"},
		{"usr/local/bin/b.sh", "wget --user ci --password=" + pass + " https://x\n"},
		{"usr/local/bin/b2.sh", "wget --http-password " + pass + " https://x\n"},
		{"usr/local/bin/c.sh", "mysql -u root -psecretpw app\n"},
		{"usr/local/bin/c2.sh", "mysqldump --password=" + pass + " app\n"},
		{"usr/local/bin/d.sh", "sshpass -p " + pass + " ssh x@y\n"},
		{"usr/local/bin/d2.sh", "sshpass -p'" + pass + "' ssh x@y\n"},
		{"etc/cron.d/e", "0 1 * * * root PGPASSWORD=" + pass + " pg_dump app\n"},
		{"opt/app/f.yaml", "database: postgres://app:" + pass + "@db.corp:5432/app\n"},
		{"opt/app/f2.yaml", "cache: redis://:" + pass + "@cache.corp:6379/0\n"},
		{"opt/app/g.env", "APP_SECRET=" + fill(24) + "\n"},
		{"opt/app/production", "SECRET_TOKEN=" + fill(24) + "\n"},
		{"opt/app/h.properties", "spring.datasource.password=" + pass + "\n"},
		{"etc/shadow", "root:$y$j9T$" + fill(22) + "$" + fill(43) + ":19000:0:99999:7:::\n"},
		{"etc/shadow-", "build:$6$" + fill(8) + "$" + fill(86) + ":19000:0:99999:7:::\n"},
		{"etc/nginx/htpasswd", "admin:$apr1$" + fill(8) + "$" + fill(22) + "\n"},
		{"srv/www/.htpasswd", "admin:{SHA}" + fill(27) + "=\n"},
		{"srv/www2/.htpasswd", "admin:" + fill(13) + "\n"},
		{"opt/wifi/wpa_supplicant.conf", "network={\n  ssid=\"a\"\n  psk=\"" + pass + "\"\n}\n"},
		{"opt/wg0.conf", "[Interface]\nPrivateKey = " + fill(43) + "=\n"},
		{"etc/fstab", "//nas/x /mnt/x cifs username=ci,password=" + pass + ",vers=3.0 0 0\n"},
		{"root/.smbcredentials", "username=ci\npassword=" + pass + "\n"},
		{"etc/cifs-creds", "username=ci\npassword=" + low("hunter") + "pw\n"},
		{"opt/ansible/.vault_pass", "correcthorse\n"},
		{"opt/ansible/vault_pass.txt", "correcthorse\n"},
		{"opt/ansible/inventory.ini", "web1 ansible_host=10.0.0.1 ansible_password=" + pass + "\n"},
		{"opt/aws/credentials", "[default]\naws_access_key_id = AK" + "IA" + strings.ToUpper(fill(16)) + "\n"},
		{"opt/aws/config", "[profile x]\naws_secret_access_key = " + fill(40) + "\n"},
		{"opt/aws/env", "export AWS_SECRET_ACCESS_KEY='" + fill(40) + "'\n"},
		{"opt/aws/sts.json", `{"Credentials":{"SecretAccessKey":"` + fill(40) + `","SessionToken":"` + fill(300) + `"}}`},
		{"opt/aws/rclone.conf", "[s3]\ntype = s3\nsecret_access_key = " + fill(40) + "\n"},
		{"opt/aws/s3cfg", "[default]\nsecret_key = " + fill(40) + "\n"},
		{"opt/aws/app.yml", "aws:\n  secretKey: " + fill(40) + "\n"},
		{"opt/keys.txt", "AGE-SECRET-" + "KEY-1" + strings.ToUpper(fill(58)) + "\n"},
		{"srv/data/laptop-key", pemKey("OPENSSH PRIVATE KEY")},
		{"usr/share/misc/key.asc", dashes + "BEGIN PGP PRIVATE KEY BLOCK" + dashes + "\n\n" + fill(64) + "\n"},
		{"var/tmp2/user-data", "#cloud-config\nusers:\n- name: a\n  passwd: $6$" + fill(8) + "$" + fill(86) + "\n"},
		{"opt/user-data", "#cloud-config\nchpasswd:\n  list: |\n    root:" + pass + "\n"},
		{"opt/user-data2", "#cloud-config\nusers:\n- name: a\n  plain_text_passwd: '" + pass + "'\n"},
		{"etc/haproxy/bundle.pem", dashes + "BEGIN CERTIFICATE" + dashes + "\n" + fill(64) + "\n" + dashes + "END CERTIFICATE" + dashes + "\n" + pemKey("RSA PRIVATE KEY")},
		{"srv/wp-config.php", "<?php\ndefine( 'DB_PASSWORD', '" + pass + "' );\n"},
		{"opt/maven/settings.xml", "<settings><servers><server><password>" + pass + "</password></server></servers></settings>\n"},
		{"opt/app/config.toml", "[db]\npassword = \"" + pass + "\"\n"},
		{"etc/postfix/sasl_passwd", "[smtp.corp]:587 ci:" + pass + "\n"},
		{"etc/ppp/chap-secrets", "ci * " + pass + " *\n"},
		{"etc/grub.d/40_x", "password_pbkdf2 root grub.pbkdf2.sha512.10000." + strings.ToUpper(hex(64)) + "." + strings.ToUpper(hex(64)) + "\n"},
		{"opt/app/settings.ini", "[jwt]\nsigning_key = " + fill(32) + "\n"},
		{"opt/app/jdbc", "jdbc:postgresql://db.corp/app?user=a&password=" + pass + "\n"},
		{"opt/app/ado.config", `<add name="x" connectionString="Server=db;User Id=a;Password=` + pass + `;" />`},
		{"opt/redis.sh", "redis-cli -h x -a " + pass + " ping\n"},
		{"opt/ldap.sh", "ldapsearch -x -D cn=admin -w " + pass + " -b dc=corp\n"},
		{"etc/ldap.conf", "binddn cn=admin\nbindpw " + pass + "\n"},
		{"etc/chrony/chrony.keys", "1 SHA1 HEX:" + strings.ToUpper(hex(40)) + "\n"},
		{"opt/telegram", "bot token 123456789:AA" + fill(33) + "\n"},
		{"opt/login.sh", "docker login -u AWS -p " + pass + " registry.corp\n"},
		{"opt/root.sh", "echo 'root:" + pass + "' | chpasswd\n"},
		{"opt/swarm", "docker swarm join --token SWM" + "TKN-1-" + fill(49) + "-" + fill(25) + "\n"},
		{"opt/consul.hcl", "encrypt = \"" + fill(43) + "=\"\n"},
		{"opt/compose.yml", "services:\n  db:\n    environment:\n      - POSTGRES_PASSWORD=" + pass + "\n"},
		{"opt/compose2.yml", "services:\n  db:\n    environment:\n      MYSQL_ROOT_PASSWORD: " + pass + "\n"},
		{"opt/secret.yaml", "apiVersion: v1\nkind: Secret\nmetadata:\n  name: x\ndata:\n  password: " + base64.StdEncoding.EncodeToString([]byte(pass)) + "\n"},
		{"opt/google", "AI" + "za" + fill(35) + "\n"},
		{"opt/gsecret.json", `{"web":{"client_secret":"GOC` + "SPX-" + fill(28) + `"}}`},
		{"opt/slackbot.env", "SLACK=xo" + "xb-123456789012-" + fill(24) + "\n"},
		{"var/lib/rabbitmq/.erlang.cookie", strings.ToUpper(fill(20))},
		{"opt/rails/database.yml", "production:\n  adapter: mysql2\n  password: " + pass + "\n"},
		{"opt/rails/secrets.yml", "production:\n  secret_key_base: " + hex(128) + "\n"},
		{"opt/laravel/.env", "APP_KEY=base64:" + fill(43) + "=\n"},
		{"opt/django/local_settings.py", "SECRET_KEY = '" + fill(50) + "'\n"},
		{"opt/kafka/jaas.conf", "KafkaClient {\n  org.apache.kafka.common.security.plain.PlainLoginModule required\n  username=\"a\"\n  password=\"kafka-pw\";\n};\n"},
	}
}

// encodings are ways to store a text, by the end of the file's name.
func encodings(t *testing.T) map[string]func(string) []byte {
	t.Helper()
	write := func(text string, open func(*bytes.Buffer) (interface {
		Write([]byte) (int, error)
		Close() error
	}, error)) []byte {
		var out bytes.Buffer
		w, err := open(&out)
		require.NoError(t, err)
		_, err = w.Write([]byte(text))
		require.NoError(t, err)
		require.NoError(t, w.Close())
		return out.Bytes()
	}
	type writer = interface {
		Write([]byte) (int, error)
		Close() error
	}
	return map[string]func(string) []byte{
		"gz": func(s string) []byte {
			return write(s, func(b *bytes.Buffer) (writer, error) { return gzip.NewWriter(b), nil })
		},
		"xz": func(s string) []byte {
			return write(s, func(b *bytes.Buffer) (writer, error) { return xz.NewWriter(b) })
		},
		"zst": func(s string) []byte {
			return write(s, func(b *bytes.Buffer) (writer, error) { return zstd.NewWriter(b) })
		},
		"tar": func(s string) []byte {
			return write(s, func(b *bytes.Buffer) (writer, error) {
				w := tar.NewWriter(b)
				return w, w.WriteHeader(&tar.Header{Name: "etc/x.env", Size: int64(len(s)), Mode: 0o600})
			})
		},
		"zip": func(s string) []byte {
			var out bytes.Buffer
			w := zip.NewWriter(&out)
			f, err := w.Create("etc/x.env")
			require.NoError(t, err)
			_, err = f.Write([]byte(s))
			require.NoError(t, err)
			require.NoError(t, w.Close())
			return out.Bytes()
		},
		"utf16le": func(s string) []byte { return wide(s, 0xfeff, false) },
		"utf16be": func(s string) []byte { return wide(s, 0xfeff, true) },
		"utf16":   func(s string) []byte { return wide(s, 0, false) },
		"b64": func(s string) []byte {
			return []byte("user-data: " + base64.StdEncoding.EncodeToString([]byte(s)) + "\n")
		},
		"b64url": func(s string) []byte { return []byte(base64.RawURLEncoding.EncodeToString([]byte(s))) },
		"b64x2": func(s string) []byte {
			return []byte(base64.StdEncoding.EncodeToString([]byte(base64.StdEncoding.EncodeToString([]byte(s)))))
		},
		"b64lines": func(s string) []byte {
			text := base64.StdEncoding.EncodeToString([]byte(s))
			var out strings.Builder
			for len(text) > 76 {
				out.WriteString(text[:76] + "\n")
				text = text[76:]
			}
			return []byte(out.String() + text + "\n")
		},
	}
}

// bzipped is the text of TestSecretsAreFoundInEveryEncoding, compressed by bzip2
// 1.0.8. Go cannot compress bzip2.
const bzipped = "QlpoOTFBWSZTWWd6mYoAAAXfgAAQSAUAgj5o/PC/5dzgIABoRNTRo0AAA2kaAGhTSbU9JoAAAGgGhQCuV8N8TtFChhNEwhYBMrUnJAXYHJ4DqSIgjQj5mMsc0aEB0sMYcjuAaUdWIRyzjZHXGSy92aKktA3vnhNhUEZEPxfKWAC8tNh+/xdyRThQkGd6mYo="

func wide(s string, mark uint16, big bool) []byte {
	units := utf16.Encode([]rune(s))
	if mark != 0 {
		units = append([]uint16{mark}, units...)
	}
	var out []byte
	for _, u := range units {
		if big {
			out = append(out, byte(u>>8), byte(u))
		} else {
			out = append(out, byte(u), byte(u>>8))
		}
	}
	return out
}

// TestVariantsOfSecretsAreFound has a file for each variant.
func TestVariantsOfSecretsAreFound(t *testing.T) {
	files := map[string]string{"etc/passwd": passwd}
	for _, v := range variants() {
		files[v.name] = v.text
	}
	h, _ := tree(t, files)
	got := strings.Join(audit(t, h, "secrets-left"), "\n")
	for _, v := range variants() {
		assert.Contains(t, got, "/"+v.name+": ", "%s", v.text)
	}
}

// A secret is found in each way to store it, and the finding names the place.
func TestSecretsAreFoundInEveryEncoding(t *testing.T) {
	text := "# settings of the application, written by hand\nDB_HOST=db.corp\nDB_PASSWORD=" + fill(12) + "\nAWS_ACCESS_KEY_ID=AK" + "IA" + strings.ToUpper(fill(16)) + "\n"
	_, root := tree(t, map[string]string{"etc/passwd": passwd, "opt/": ""})
	places := map[string]string{
		"gz": "in the expanded content, line 4", "xz": "in the expanded content, line 4", "zst": "in the expanded content, line 4",
		"tar": `in "etc/x.env" of the archive, line 4`, "zip": `in "etc/x.env" of the archive, line 4`, "utf16le": "line 4", "utf16be": "line 4", "utf16": "line 4",
		"b64": "in the base64 text of line 1, line 4", "b64url": "in the base64 text of line 1, line 4", "b64lines": "in the base64 text of line 1, line 4",
		"b64x2": "in the base64 text of line 1, in the base64 text of line 1, line 4",
	}
	for form, encode := range encodings(t) {
		require.NoError(t, os.WriteFile(filepath.Join(root, "opt", "x.env."+form), encode(text), 0o600))
		require.NotEmpty(t, places[form])
	}
	expanded, err := base64.StdEncoding.DecodeString(bzipped)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(root, "opt/x.env.bz2"), expanded, 0o600))
	places["bz2"] = "in the expanded content, line 4"
	packed := encodings(t)["gz"](string(encodings(t)["tar"](text)))
	require.NoError(t, os.WriteFile(filepath.Join(root, "opt/x.env.tgz"), packed, 0o600))
	places["tgz"] = `in the expanded content, in "etc/x.env" of the archive, line 4`
	h := hosttest.Mounted(t, root)
	got := audit(t, h, "secrets-left")
	for form, place := range places {
		assert.Contains(t, got, fmt.Sprintf("/opt/x.env.%s: %s contains an AWS access key", form, place))
	}
	assert.NotContains(t, strings.Join(got, "\n"), fill(12))
}
