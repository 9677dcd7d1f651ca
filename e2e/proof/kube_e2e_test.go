//go:build e2e && linux

package main

import (
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/websocket"
	"sigs.k8s.io/yaml"

	"github.com/eksnode/packer-plugin-eksnode/e2e/aws"
	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
)

// kube is a double of an API server, for the real kubectl. Each running instance with a
// role that the cluster lets in is a node, which is Ready. A pod runs at once, and exec runs
// the command here.
type kube struct {
	w       *aws.World
	mutex   sync.Mutex
	fixed   map[string]json.RawMessage // answers of discovery
	objects map[string]map[string]any  // by path
	started string                     // the instance of the NodePool
}

// serveKube makes a double the API server of the clusters of a world.
func serveKube(t *testing.T, w *aws.World) {
	t.Helper()
	k := &kube{w: w, objects: map[string]map[string]any{}}
	require.NoError(t, yaml.Unmarshal([]byte(testkit.Content(t, "testdata/discovery.yaml")), &k.fixed))
	server := httptest.NewTLSServer(k)
	t.Cleanup(server.Close)
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	w.APIServer, w.Authority = server.URL, base64.StdEncoding.EncodeToString(authority)
}

// provision does what Karpenter does: a pod of a NodePool gets an instance of its
// EC2NodeClass, with the tags of that.
func (k *kube) provision(pod map[string]any) {
	spec, _ := pod["spec"].(map[string]any)
	selector, _ := spec["nodeSelector"].(map[string]any)
	pool := k.objects["/apis/karpenter.sh/v1/nodepools/"+fmt.Sprint(selector["karpenter.sh/nodepool"])]
	if pool == nil {
		return
	}
	class := k.objects["/apis/karpenter.k8s.aws/v1/ec2nodeclasses/eksnode"]
	text, _ := json.Marshal([]any{pool, class})
	kind := regexp.MustCompile(`"values":\["(t\w+\.\w+)"\]`).FindSubmatch(text)
	ami := regexp.MustCompile(`"amiSelectorTerms":\[\{"id":"(ami-\w+)"\}\]`).FindSubmatch(text)
	tag := regexp.MustCompile(`"tags":\{"(.*?)":"(.*?)"\}`).FindSubmatch(text)
	answer := k.w.Do("ec2:RunInstances", "ImageId", string(ami[1]), "InstanceType", string(kind[1]),
		"MinCount", "1", "MaxCount", "1", "TagSpecification.1.ResourceType", "instance",
		"TagSpecification.1.Tag.1.Key", string(tag[1]), "TagSpecification.1.Tag.1.Value", string(tag[2]))
	k.started = string(regexp.MustCompile(`<instanceId>(i-\w+)<`).FindSubmatch(answer)[1])
	spec["nodeName"] = "ip-" + k.started
}

// running lists the instances that run, and says whether one of them is a stranger.
func running(w *aws.World) (nodes []string, stranger bool) {
	if w.Count()["ec2:RunInstances"] == 0 {
		return nil, false
	}
	for _, one := range strings.Split(string(w.Do("ec2:DescribeInstances")), "<instanceId>") {
		if id, of, _ := strings.Cut(one, "<"); strings.HasPrefix(id, "i-") && strings.Contains(of, "<name>running</name>") {
			nodes = append(nodes, id)
			stranger = stranger || strings.Contains(of, "-stranger")
		}
	}
	return nodes, stranger
}

// nodes are the running instances, without those of a stranger.
func (k *kube) nodes() {
	for path := range k.objects {
		if strings.HasPrefix(path, "/api/v1/nodes/") {
			delete(k.objects, path)
		}
	}
	nodes, stranger := running(k.w)
	if stranger {
		return
	}
	for _, id := range nodes {
		k.keep("/api/v1/nodes/ip-"+id, map[string]any{
			"kind": "Node", "apiVersion": "v1", "spec": map[string]any{"providerID": "aws:///eu-west-1a/" + id},
			"status": map[string]any{"nodeInfo": map[string]any{"bootID": fmt.Sprint(k.w.Count()["ec2:RebootInstances"])}},
		})
	}
}

// keep keeps an object that is Ready.
func (k *kube) keep(path string, object map[string]any) {
	now := time.Now().UTC().Format(time.RFC3339)
	metadata, _ := object["metadata"].(map[string]any)
	if metadata == nil {
		metadata = map[string]any{"name": path[strings.LastIndex(path, "/")+1:]}
	}
	if _, of, namespaced := strings.Cut(path, "/namespaces/"); namespaced {
		metadata["namespace"], _, _ = strings.Cut(of, "/")
	}
	metadata["creationTimestamp"], metadata["resourceVersion"], metadata["uid"] = now, "1", path
	status, _ := object["status"].(map[string]any)
	if len(status) == 0 {
		status = map[string]any{"phase": "Running", "podIP": k.address()}
	}
	status["conditions"] = []any{map[string]any{"type": "Ready", "status": "True", "lastTransitionTime": now}}
	object["metadata"], object["status"] = metadata, status
	k.objects[path] = object
}

// address is a pod's, of the family of the cluster that the run made.
func (k *kube) address() string {
	network, _ := k.w.Clusters["eksnode-proof-"+testRun]["kubernetesNetworkConfig"].(map[string]any)
	if network["ipFamily"] == "ipv6" {
		return "2001:db8::9"
	}
	return "10.97.0.9"
}

func (k *kube) ServeHTTP(out http.ResponseWriter, in *http.Request) {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	path, name := in.URL.Path, strings.TrimPrefix(in.URL.Query().Get("fieldSelector"), "metadata.name=")
	object, command := k.objects[path], in.URL.Query()["command"]
	answer := func(code int, value any) {
		out.Header().Set("Content-Type", "application/json")
		out.WriteHeader(code)
		_ = json.NewEncoder(out).Encode(value)
	}
	k.nodes()
	switch {
	case !strings.HasPrefix(in.Header.Get("Authorization"), "Bearer k8s-aws-v1."):
		answer(http.StatusUnauthorized, map[string]any{"kind": "Status", "apiVersion": "v1", "status": "Failure",
			"code": 401, "reason": "Unauthorized"})
	case k.fixed[path] != nil:
		answer(http.StatusOK, k.fixed[path])
	case in.Method == http.MethodPost:
		made := map[string]any{}
		_ = json.NewDecoder(in.Body).Decode(&made)
		metadata, _ := made["metadata"].(map[string]any)
		k.provision(made)
		k.keep(path+"/"+fmt.Sprint(metadata["name"]), made)
		answer(http.StatusCreated, made)
	case strings.HasSuffix(path, "/log"):
		fmt.Fprintln(out, "started") // what the pod's command prints
	case strings.HasSuffix(path, "/exec"):
		executed(out, in, command)
	case in.Method == http.MethodDelete && object != nil:
		delete(k.objects, path)
		if strings.Contains(path, "/nodepools/") {
			k.w.Do("ec2:TerminateInstances", "InstanceId.1", k.started)
		}
		answer(http.StatusOK, object)
	case k.objects[path] != nil:
		answer(http.StatusOK, k.objects[path])
	case regexp.MustCompile(`/(nodes|pods|ec2nodeclasses|nodepools)$`).MatchString(path):
		list := []any{}
		for of, one := range k.objects {
			if strings.HasPrefix(of, path+"/") && (name == "" || strings.HasSuffix(of, "/"+name)) {
				list = append(list, one)
			}
		}
		if in.URL.Query().Get("watch") == "true" { // nothing changes any more
			out.Header().Set("Content-Type", "application/json")
			for _, one := range list {
				_ = json.NewEncoder(out).Encode(map[string]any{"type": "ADDED", "object": one})
			}
			return
		}
		answer(http.StatusOK, map[string]any{"kind": "List", "apiVersion": "v1",
			"metadata": map[string]any{"resourceVersion": "1"}, "items": list})
	default:
		answer(http.StatusNotFound, map[string]any{"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 404,
			"reason": "NotFound"})
	}
}

// executed answers exec with the output of a command on channel 1 and its status on channel 3
// (https://github.com/kubernetes/kubernetes/tree/master/staging/src/k8s.io/apimachinery/pkg/util/remotecommand).
func executed(out http.ResponseWriter, in *http.Request, command []string) {
	websocket.Server{
		Handshake: func(config *websocket.Config, _ *http.Request) error {
			config.Protocol = []string{"v5.channel.k8s.io"}
			return nil
		},
		Handler: func(c *websocket.Conn) {
			said, err := exec.Command(command[0], command[1:]...).Output()
			status := `{"status":"Success"}`
			if err != nil {
				status = fmt.Sprintf(`{"status":"Failure","message":%q}`, err)
			}
			_ = websocket.Message.Send(c, append([]byte{1}, said...))
			_ = websocket.Message.Send(c, append([]byte{3}, status...))
			c.PayloadType = websocket.CloseFrame
			_, _ = c.Write([]byte{1000 >> 8, 1000 & 0xff}) // a normal end
		},
	}.ServeHTTP(out, in)
}
