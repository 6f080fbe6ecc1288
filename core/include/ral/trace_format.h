/* trace_format.h - the layout of the trace file, shared by its one writer (libral) and any reader.
 *
 * One file per process, mode 0600: `$XDG_RUNTIME_DIR/ral/<pid>-<start>.trace`, else
 * `<temporary folder>/ral-<uid>/<pid>-<start>.trace`; readers look in both. All integers are
 * little-endian. docs/trace-format.md explains how to read it safely; a Python reader is in
 * torch_fl_core/trace/ring.py and a test compares its offsets with this file.
 *
 *   0                header (4096 bytes)
 *   status_offset    status text: JSON, see below (64 KiB)
 *   gauge_offset     ral_trace_gauge[RAL_TRACE_MAX_DEVICES]
 *   directory_offset ral_trace_segment[RAL_TRACE_MAX_SEGMENTS]
 *   string_offset    string table (4 MiB): entries {uint32 length, bytes, padding to 4}
 *   ...              segments, added at the end as threads begin to write
 */
#ifndef RAL_TRACE_FORMAT_H
#define RAL_TRACE_FORMAT_H

#include <stdint.h>

#define RAL_TRACE_MAGIC 0x45434152544c4152ull /* "RALTRACE" */
#define RAL_TRACE_VERSION 1u                  /* of this layout; a reader refuses another */
#define RAL_TRACE_MAX_DEVICES 16u             /* gauges in the file */
#define RAL_TRACE_MAX_SEGMENTS 64u            /* entries of the directory */
#define RAL_TRACE_MAX_LEASES 16u              /* readers that can keep recording on at once */
#define RAL_TRACE_HEADER_BYTES 4096u          /* from the file's begin to the first table */
#define RAL_TRACE_STATUS_BYTES 65536u         /* room for the status text */
#define RAL_TRACE_STRING_BYTES (4u << 20)     /* room for the string table */
/* Records in one segment (a power of two); RAL_TRACE_RECORDS changes it. 131072 records = 16 MiB. */
#define RAL_TRACE_DEFAULT_RECORDS 131072u

/* Tracing is on while any lease has not expired. A reader writes a free slot (expiry_ns in the past)
 * and renews it; a killed reader's lease runs out by itself. libral looks every 100 ms. */
struct ral_trace_lease {
  uint32_t owner_pid;
  uint32_t flags;    /* 0 */
  int64_t expiry_ns; /* CLOCK_MONOTONIC */
};

/* The first bytes of the file. */
struct ral_trace_header {
  uint64_t magic;
  uint32_t version;
  uint32_t record_bytes; /* sizeof(ral_trace_record) */
  uint32_t pid;
  uint32_t enabled;       /* 1 while recording */
  uint64_t process_start; /* field 22 of /proc/<pid>/stat, against reused pids */
  char kernel_id[64];     /* Jupyter kernel id, "" where there is none */
  int64_t created_ns;     /* CLOCK_MONOTONIC, as all times here */
  /* Clock calibration, rewritten every second. Odd sequence: being written. */
  uint32_t clock_sequence;
  uint32_t clock_uncertainty_ns;
  int64_t clock_monotonic_ns;
  int64_t clock_realtime_ns; /* the same moment */
  uint32_t status_offset;
  uint32_t status_sequence; /* odd: being written; grows with each change */
  uint32_t status_length;
  uint32_t gauge_offset;
  uint32_t directory_offset;
  uint32_t segment_count; /* entries of the directory in use */
  uint32_t string_offset;
  uint32_t string_capacity;
  uint64_t string_used;  /* bytes; entries below it are complete */
  uint32_t string_count; /* id of the next string; ids count from 1, 0 is "no string" */
  uint32_t strings_dropped;
  uint64_t records_dropped; /* not written at all (no segment could be had) */
  struct ral_trace_lease leases[RAL_TRACE_MAX_LEASES];
};

/* Kept up to date whether or not recording is on. */
struct ral_trace_gauge {
  uint64_t allocated; /* bytes in live blocks */
  uint64_t reserved;  /* bytes held from the device */
  uint64_t peak;      /* highest `allocated` since process start */
  uint64_t busy_ns;   /* sum of kernel and copy times on the device, while recording */
  uint64_t kernels;   /* launches, while recording */
  uint64_t live_views;
  uint64_t total; /* bytes of the device */
  uint64_t spare;
};

/* One writer (a thread). `head` counts records ever written; record i lies at index i % capacity.
 * When a thread ends its segment may pass to another; records name their thread. */
struct ral_trace_segment {
  uint64_t offset;   /* in the file */
  uint32_t capacity; /* records */
  uint32_t state;    /* 0 free, 1 in use */
  uint64_t head;
  uint64_t spare;
};

/* What a record tells of: ral_trace_record.kind. */
enum {
  RAL_TRACE_OP = 1,       /* an operator or user range on the host: RecordFunction. name = op */
  RAL_TRACE_KERNEL = 2,   /* a computation: name = op, kernel, tier, reason. On a device's clock mapped
                             to ours, or, with RAL_TRACE_HOST, on the host lane */
  RAL_TRACE_COPY = 3,     /* name = "host_to_device", "device_to_host", "on_device", "device_to_device" */
  RAL_TRACE_ALLOC = 4,    /* a block was handed out: buffer, bytes; name = op */
  RAL_TRACE_FREE = 5,     /* a buffer or view died: buffer, bytes */
  RAL_TRACE_VIEW = 6,     /* a BufferView was made: buffer, parent in aux64, bytes, byte offset in copied; name = op */
  RAL_TRACE_SYNC = 7,     /* the host waited: name = why ("synchronize", "wait", "item", "host op") */
  RAL_TRACE_DECISION = 8, /* a new plan: name = op, kernel, tier, reason (the whole chain) */
  RAL_TRACE_COMPILE = 9,  /* a kernel was built: name = kernel; end_ns 0 in a record written at its begin */
  RAL_TRACE_MARK = 10     /* name = text, such as "cell begin <hash>" */
};

/* Where a computation ran: ral_trace_record.tier. */
enum {
  RAL_TIER_NONE = 0,
  RAL_TIER_NATIVE = 1,
  RAL_TIER_JIT = 2,
  RAL_TIER_REFERENCE = 3,
  RAL_TIER_CPU = 4,
  RAL_TIER_VIEW = 5
};

/* Bits of ral_trace_record.flags. */

#define RAL_TRACE_BACKWARD 0x1u        /* ran inside a backward node */
#define RAL_TRACE_HOST 0x2u            /* ran on the host (tiers reference and cpu, host copies) */
#define RAL_TRACE_USER_RANGE 0x4u      /* an OP that is a torch.profiler.record_function range */
#define RAL_TRACE_SNAPSHOT 0x8u        /* an ALLOC or VIEW older than the moment recording began */
#define RAL_TRACE_FAILED 0x10u         /* raised an error */
#define RAL_TRACE_NO_DEVICE_TIME 0x20u /* the driver gave no times; these are the host's around the launch */

/* One event; which members mean something depends on its kind. Unused ones are 0, or -1 where noted. */
struct ral_trace_record {
  uint64_t sequence; /* record's number in its segment + 1; 0 while being written */
  int64_t begin_ns;
  int64_t end_ns;
  int64_t queued_ns;       /* KERNEL, COPY on a device: when the host enqueued it */
  uint64_t bytes;          /* ALLOC, FREE, VIEW, COPY: size. KERNEL: bytes read and written */
  uint64_t copied;         /* KERNEL: bytes copied between host and device for this tier's sake. VIEW: byte offset */
  uint64_t buffer;         /* ALLOC, FREE, VIEW: id, unique in the process. KERNEL: first output's id */
  uint64_t aux64;          /* VIEW: parent buffer id. KERNEL: first input's buffer id */
  uint64_t correlation;    /* OP: own id. Others: id of the OP that caused them; 0 none */
  int64_t sequence_number; /* autograd; -1 none. A backward op bears its forward op's number */
  uint32_t name;           /* string ids */
  uint32_t kernel;
  uint32_t reason;           /* JSON object {tier: why it was passed over, ..., "ran": why it ran} */
  uint32_t thread;           /* string "<tid> <name>" */
  uint32_t location;         /* string "<source hash>:<line>": line of the running cell */
  uint32_t inner_location;   /* innermost user line, possibly of an earlier cell */
  uint32_t forward_location; /* backward: location of the forward op */
  uint32_t stream;           /* stream id; 0 is a device's default stream */
  int16_t device;            /* ral index; -1 none */
  uint8_t kind;
  uint8_t tier;
  uint32_t flags;
  uint32_t shapes; /* string such as "[64, 1, 8, 8] float32, [16, 1, 3, 3] float32"; 0 unknown */
  uint32_t spare;
};

/* The status text: {"torch_fl": version, "devices": [{"id": "ral:0", "index", "kind": "CPU",
 * "name", "vendor", "mark": "Po", "driver", "memory_total", "dtypes": [...], "plugin",
 * "plugin_version", "status", "host_visible"}], "plugins": [{"name", "version", "path", "status",
 * "reason", "missing": [..]}]} */

#endif /* RAL_TRACE_FORMAT_H */
