//go:build !servers

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/latest"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodevolumelimits"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	schedulermetrics "k8s.io/kubernetes/pkg/scheduler/metrics"
)

// verdict says where the replacement of a pod could run, and which plugin refused the other nodes.
type verdict struct {
	Pod  string            `json:"pod"`
	Fits []string          `json:"fits"`
	Why  map[string]string `json:"why"`
}

// clusterState is what the oracle is asked about: the nodes, the pods that use them, and
// whatever else the scheduler's plugins look up.
type clusterState struct {
	nodes  []*v1.Node
	pods   []*v1.Pod
	lookup []runtime.Object
}

// currentSnapshot lets one framework judge many snapshots, one after the other.
type currentSnapshot struct{ *cache.Snapshot }

var _ fwk.SharedLister = &currentSnapshot{}

// runOracle asks kube-scheduler's own code which nodes would accept each pod.
//
// It reads Kubernetes Lists (JSON, one after another) from standard input with nodes, pods and,
// where used, namespaces, persistent volumes and claims, storage classes, CSI nodes and drivers,
// services. For each list it prints a verdict (a JSON line) for each pod that is on a node and has
// not ended. An empty line separates the verdicts on one list from those on the next.
//
// A pod is judged as its replacement would be: unbound, under another name, by the PreFilter and
// Filter plugins of the default profile (DynamicResources aside). The pod itself is gone from its
// node by then, unless withOldPod says that both exist for a while.
func runOracle(withOldPod bool) {
	klog.SetOutput(os.Stderr)
	schedulermetrics.Register()
	in := json.NewDecoder(os.Stdin)
	out := json.NewEncoder(os.Stdout)
	for first := true; in.More(); first = false {
		if !first {
			fmt.Println()
		}
		judgeList(readState(in), withOldPod, out)
	}
}

// judgeList prints the verdicts on the pods of one list.
func judgeList(state clusterState, withOldPod bool, out *json.Encoder) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	snapshot := &currentSnapshot{cache.NewSnapshot(state.running(), state.nodes)}
	scheduler := newFramework(ctx, state.lookup, snapshot)
	for _, pod := range state.running() {
		if withOldPod {
			must(out.Encode(judge(ctx, scheduler, snapshot, pod)))
			continue
		}
		putBack := state.takeAway(snapshot, pod)
		must(out.Encode(judge(ctx, scheduler, snapshot, pod)))
		putBack()
	}
}

// takeAway removes a pod from the snapshot until the function that it returns is called.
//
// Only the pod's node is made anew, for making all of them takes longer than all else together.
// (NodeInfo.RemovePod would free a host port that another pod takes as well.) But which claims are
// in use is not counted by node, so without a pod that uses claims the whole snapshot is made anew.
func (state *clusterState) takeAway(snapshot *currentSnapshot, pod *v1.Pod) func() {
	others := slices.DeleteFunc(state.running(), func(other *v1.Pod) bool { return other == pod })
	if slices.ContainsFunc(pod.Spec.Volumes, func(volume v1.Volume) bool { return volume.PersistentVolumeClaim != nil }) {
		complete := snapshot.Snapshot
		snapshot.Snapshot = cache.NewSnapshot(others, state.nodes)
		return func() { snapshot.Snapshot = complete }
	}
	found, err := snapshot.NodeInfos().Get(pod.Spec.NodeName)
	must(err)
	info := found.(*framework.NodeInfo)
	complete := *info
	neighbours := slices.DeleteFunc(others, func(other *v1.Pod) bool { return other.Spec.NodeName != pod.Spec.NodeName })
	*info = *framework.NewNodeInfo(neighbours...)
	info.SetNode(complete.Node())
	return func() { *info = complete }
}

func readState(in *json.Decoder) clusterState {
	var list struct {
		Items []json.RawMessage `json:"items"`
	}
	must(in.Decode(&list))
	state := clusterState{}
	for _, raw := range list.Items {
		state.add(raw)
	}
	return state
}

func (state *clusterState) add(raw json.RawMessage) {
	var meta struct {
		Kind string `json:"kind"`
	}
	must(json.Unmarshal(raw, &meta))
	switch meta.Kind {
	case "Node":
		node := decode(raw, &v1.Node{})
		state.nodes = append(state.nodes, node)
		state.lookup = append(state.lookup, node)
	case "Pod":
		state.pods = append(state.pods, decode(raw, &v1.Pod{}))
	case "Namespace":
		state.lookup = append(state.lookup, decode(raw, &v1.Namespace{}))
	case "PersistentVolume":
		state.lookup = append(state.lookup, decode(raw, &v1.PersistentVolume{}))
	case "PersistentVolumeClaim":
		state.lookup = append(state.lookup, decode(raw, &v1.PersistentVolumeClaim{}))
	case "Service":
		state.lookup = append(state.lookup, decode(raw, &v1.Service{}))
	case "StorageClass":
		state.lookup = append(state.lookup, decode(raw, &storagev1.StorageClass{}))
	case "CSINode":
		state.lookup = append(state.lookup, decode(raw, &storagev1.CSINode{}))
	case "CSIDriver":
		state.lookup = append(state.lookup, decode(raw, &storagev1.CSIDriver{}))
	}
}

// running lists the pods that take up room: those on a node that have not ended.
func (state *clusterState) running() []*v1.Pod {
	running := make([]*v1.Pod, 0, len(state.pods))
	for _, pod := range state.pods {
		if pod.Spec.NodeName != "" && !hasEnded(pod) {
			running = append(running, pod)
		}
	}
	return running
}

func hasEnded(pod *v1.Pod) bool {
	return pod.Status.Phase == v1.PodSucceeded || pod.Status.Phase == v1.PodFailed
}

func newFramework(ctx context.Context, objects []runtime.Object, snapshot fwk.SharedLister) framework.Framework {
	client := fake.NewClientset(objects...)
	factory := informers.NewSharedInformerFactory(client, 0)
	csiNodes := factory.Storage().V1().CSINodes().Lister()
	scheduler, err := frameworkruntime.NewFramework(ctx, plugins.NewInTreeRegistry(), defaultProfile(),
		frameworkruntime.WithClientSet(client),
		frameworkruntime.WithInformerFactory(factory),
		frameworkruntime.WithSnapshotSharedLister(snapshot),
		frameworkruntime.WithSharedCSIManager(nodevolumelimits.NewCSIManager(csiNodes)),
	)
	must(err)
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	return scheduler
}

func defaultProfile() *config.KubeSchedulerProfile {
	configuration, err := latest.Default()
	must(err)
	profile := &configuration.Profiles[0]
	// DynamicResources needs a manager of claims that a snapshot does not have.
	profile.Plugins.MultiPoint.Enabled = slices.DeleteFunc(profile.Plugins.MultiPoint.Enabled,
		func(plugin config.Plugin) bool { return plugin.Name == "DynamicResources" })
	return profile
}

func judge(ctx context.Context, scheduler framework.Framework, snapshot fwk.SharedLister, pod *v1.Pod) verdict {
	replacement := pod.DeepCopy()
	replacement.Spec.NodeName = ""
	replacement.UID += "-new"
	replacement.Name += "-new"
	found := verdict{Pod: pod.Namespace + "/" + pod.Name, Fits: []string{}, Why: map[string]string{}}
	cycle := framework.NewCycleState()
	narrowed, status, _ := scheduler.RunPreFilterPlugins(ctx, cycle, replacement)
	infos, err := snapshot.NodeInfos().List()
	must(err)
	for _, info := range infos {
		name := info.Node().Name
		if !status.IsSuccess() {
			found.Why[name] = status.Plugin() + "/prefilter"
		} else if narrowed != nil && !narrowed.AllNodes() && !narrowed.NodeNames.Has(name) {
			found.Why[name] = "prefilter"
		} else if filtered := scheduler.RunFilterPlugins(ctx, cycle, replacement, info); !filtered.IsSuccess() {
			found.Why[name] = filtered.Plugin()
		} else {
			found.Fits = append(found.Fits, name)
		}
	}
	slices.Sort(found.Fits)
	return found
}

func decode[T any](raw json.RawMessage, object *T) *T {
	must(json.Unmarshal(raw, object))
	return object
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "oracle:", err)
		os.Exit(1)
	}
}
